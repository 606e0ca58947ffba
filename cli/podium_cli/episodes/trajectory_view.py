from rich.text import Text

from podium.episodes.v1 import episode_pb2, feedback_pb2, trajectory_pb2
from podium_cli.formats import counted, format_money, format_seconds
from podium_kit.text import format_bytes, one_line
from podium_kit.wire import duration_from_proto, enum_word, optional_money_from_proto

TASK_CHARACTERS = 70
ANSWER_CHARACTERS = 50
COMMENT_CHARACTERS = 200


def record_view(record: trajectory_pb2.TrajectoryRecord) -> Text:
    match record.WhichOneof("record"):
        case "trajectory":
            return _trajectory(record.trajectory)
        case "group_closed":
            closed = record.group_closed
            return Text(f"group {closed.group_id} of {len(closed.episode_ids)} closed", style="dim")
        case "feedback_given":
            given = record.feedback_given
            return Text.assemble((given.episode_id, "bold"), "  ", feedback_line(given.feedback))
        case _:
            reference = record.reference
            size = format_bytes(reference.size_bytes)
            return Text(f"{reference.episode_id} is stored elsewhere ({size})")


def feedback_line(feedback: feedback_pb2.Feedback) -> Text:
    score = [f"{feedback.score:g}"] if feedback.HasField("score") else []
    comment = one_line(feedback.comment, COMMENT_CHARACTERS)
    words = ", ".join(each for each in (*score, feedback.label, comment) if each)
    return Text(f"feedback  {words} ({feedback.created_by})", style="dim")


def _trajectory(trajectory: trajectory_pb2.Trajectory) -> Text:
    tokens = sum(len(turn.model_call.response.completion_token_ids) for turn in trajectory.turns)
    reason = enum_word(episode_pb2.StopReason.Name(trajectory.stop_reason), "STOP_REASON_")
    return Text.assemble(
        (trajectory.episode_id, "bold"),
        f"  {reason}, {counted(len(trajectory.turns), 'turn')}, {tokens} sampled tokens, ",
        f"{format_money(optional_money_from_proto(trajectory.cost))}, ",
        f"{format_seconds(duration_from_proto(trajectory.latency))}  ",
        (one_line(trajectory.task, TASK_CHARACTERS), "cyan"),
        (f"  {one_line(trajectory.answer, ANSWER_CHARACTERS)}", "green"),
    )

"""One record of the trajectory stream in a few words."""

from rich.text import Text

from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium_cli.formats import format_bytes, format_money, format_seconds, one_line
from podium_kit.wire import duration_from_proto, enum_word, optional_money_from_proto

TASK_CHARACTERS = 70
ANSWER_CHARACTERS = 50


def record_view(record: trajectory_pb2.TrajectoryRecord) -> Text:
    """A line per record."""
    match record.WhichOneof("record"):
        case "trajectory":
            return _trajectory(record.trajectory)
        case "group_closed":
            closed = record.group_closed
            return Text(f"group {closed.group_id} of {len(closed.episode_ids)} closed", style="dim")
        case _:
            reference = record.reference
            size = format_bytes(reference.size_bytes)
            return Text(f"{reference.episode_id} is stored elsewhere ({size})")


def _trajectory(trajectory: trajectory_pb2.Trajectory) -> Text:
    tokens = sum(len(turn.model_call.response.completion_token_ids) for turn in trajectory.turns)
    reason = enum_word(episode_pb2.StopReason.Name(trajectory.stop_reason), "STOP_REASON_")
    return Text.assemble(
        (trajectory.episode_id, "bold"),
        f"  {reason}, {len(trajectory.turns)} turns, {tokens} sampled tokens, ",
        f"{format_money(optional_money_from_proto(trajectory.cost))}, ",
        f"{format_seconds(duration_from_proto(trajectory.latency))}  ",
        (one_line(trajectory.task, TASK_CHARACTERS), "cyan"),
        (f"  {one_line(trajectory.answer, ANSWER_CHARACTERS)}", "green"),
    )

from episodes.admission.access import may_read_episode
from episodes.episodes.convert_withheld import withhold_content, withhold_event
from episodes.episodes.watch import EpisodeProgress
from episodes.keys import StepKind
from episodes.models import EpisodeState, Feedback, Step, StoredEpisode
from episodes.publication.trajectory import STOP_REASON_TO_WIRE
from episodes.step_log.log import BODY_OF
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2, episode_service_pb2, feedback_pb2, trajectory_pb2
from podium.episodes.v1 import episode_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2
from podium_kit.money import Money
from podium_kit.wire import money_to_proto, timestamp_to_proto

STATE_TO_WIRE = {
    state: pb.EpisodeState.Value(f"EPISODE_STATE_{state.name}") for state in EpisodeState
}
STATE_FROM_WIRE = {number: state for state, number in STATE_TO_WIRE.items()}


def episode_to_proto(stored: StoredEpisode) -> pb.Episode:
    """Returns the message, without content that its caller may not read."""
    new, progress = stored.new, stored.progress
    episode = pb.Episode(
        id=new.episode_id,
        spec=pb.EpisodeSpec.FromString(new.spec),
        state=STATE_TO_WIRE[stored.state],
        turn_count=progress.turn_count,
        tool_call_count=progress.tool_call_count,
        cost=money_to_proto(progress.cost or Money.zero("USD")),
        unpriced_call_count=progress.unpriced_call_count,
        policy_name=new.policy_name,
        policy_version=new.policy_version,
        toolset_digest=new.toolset_digest.hex(),
        create_time=timestamp_to_proto(stored.create_time),
    )
    if progress.usage:
        episode.MergeFrom(pb.Episode.FromString(progress.usage))
    if stored.ending and stored.end_time:
        episode.stop_reason = STOP_REASON_TO_WIRE[stored.ending.stop_reason]
        episode.answer = stored.ending.answer
        episode.end_time.CopyFrom(timestamp_to_proto(stored.end_time))
    if stored.ending and stored.ending.failure:
        episode.failure.CopyFrom(failure_pb2.Failure.FromString(stored.ending.failure))
    if not may_read_episode(stored):
        withhold_content(episode)
    return episode


def watched_to_proto(progress: EpisodeProgress) -> episode_service_pb2.WatchEpisodeResponse:
    if progress.part is None:
        return episode_service_pb2.WatchEpisodeResponse(event=event_to_proto(progress))
    part = episode_service_pb2.EpisodeAnswerPart(
        turn=progress.part.turn, start=progress.part.start, text=progress.part.text
    )
    return episode_service_pb2.WatchEpisodeResponse(answer_part=part)


def event_to_proto(progress: EpisodeProgress) -> pb.EpisodeEvent:
    event = pb.EpisodeEvent(sequence=progress.sequence)
    if progress.step is not None:
        _fill_step_event(event, progress.step)
    elif progress.sequence == 1:
        event.time.CopyFrom(timestamp_to_proto(progress.episode.create_time))
        event.started.CopyFrom(_started(progress.episode))
    else:
        episode = episode_to_proto(progress.episode)
        event.time.CopyFrom(episode.end_time)
        event.turn = episode.turn_count
        event.finished.episode.CopyFrom(episode)
    if progress.content_withheld:
        withhold_event(event)
    return event


def _started(stored: StoredEpisode) -> pb.EpisodeStarted:
    tools = toolset_pb2.Toolset.FromString(stored.new.toolset).tools
    return pb.EpisodeStarted(
        tool_names=[tool.name for tool in tools],
        policy_name=stored.new.policy_name,
        policy_version=stored.new.policy_version,
    )


def _fill_step_event(event: pb.EpisodeEvent, step: Step) -> None:
    event.turn = step.turn
    if step.create_time is not None:
        event.time.CopyFrom(timestamp_to_proto(step.create_time))
    body = BODY_OF[step.kind].FromString(step.body)
    if isinstance(body, trajectory_pb2.ModelCall):
        event.action_decided.CopyFrom(_action_decided(body, step))
    elif isinstance(body, trajectory_pb2.ToolInvocation):
        verifies = step.kind is StepKind.VERIFIER
        returned = event.verifier_called if verifies else event.tool_returned
        returned.CopyFrom(_tool_returned(body, step))
    elif isinstance(body, check_pb2.Judgement):
        event.judged.CopyFrom(body)
    elif isinstance(body, pb.ClientCallsRequested):
        event.client_calls_requested.CopyFrom(body)
    else:
        event.approval_requested.CopyFrom(body)


def _action_decided(call: trajectory_pb2.ModelCall, step: Step) -> pb.ActionDecided:
    response = call.response
    action = response.action
    if call.HasField("failure"):
        # Readers take it for what it is to them: a turn without an action.
        action = orchestrator_pb.Action(malformed=call.failure)
    decided = pb.ActionDecided(
        action=action,
        latency=response.latency,
        usage=response.usage,
        model_version=response.model_version,
        left_out=response.left_out,
        preference_line=response.preference_line,
        guardrails=call.guardrails,
    )
    if step.cost is not None:
        decided.cost.CopyFrom(money_to_proto(step.cost))
    return decided


def _tool_returned(invocation: trajectory_pb2.ToolInvocation, step: Step) -> pb.ToolReturned:
    returned = pb.ToolReturned(
        observation=invocation.observation,
        latency=invocation.latency,
        usage=invocation.usage,
        guardrails=invocation.guardrails,
        cached=invocation.cached,
    )
    if invocation.HasField("child"):
        returned.child.CopyFrom(invocation.child)
    if step.cost is not None:
        returned.cost.CopyFrom(money_to_proto(step.cost))
    return returned


def feedback_from_proto(request: episode_service_pb2.GiveFeedbackRequest, subject: str) -> Feedback:
    score = request.score if request.HasField("score") else None
    return Feedback(request.id, score, request.label, request.comment, subject).identified()


def feedback_to_proto(feedback: Feedback) -> feedback_pb2.Feedback:
    message = feedback_pb2.Feedback(
        id=feedback.id,
        score=feedback.score,
        label=feedback.label,
        comment=feedback.comment,
        created_by=feedback.created_by,
    )
    if feedback.create_time is not None:
        message.create_time.CopyFrom(timestamp_to_proto(feedback.create_time))
    return message

from collections import Counter
from decimal import Decimal

from podium.episodes.v1 import trajectory_pb2
from podium_kit.wire import duration_from_proto, optional_money_from_proto
from podium_training.gate import Evaluated


def evaluated(found: trajectory_pb2.Trajectory) -> Evaluated | None:
    replies = [turn.model_call.response for turn in found.turns]
    versions = {reply.model_version for reply in replies if reply.model_version}
    if not versions:
        return None
    own = optional_money_from_proto(found.features.orchestrator_cost)
    calls = [call for turn in found.turns for call in turn.tool_invocations]
    return Evaluated(
        # A user's episode is of no task that others have.
        task_id=found.task_id or found.episode_id,
        seed=found.sample_index,
        score=found.outcomes[0].score if found.outcomes else None,
        cost=_cost(found),
        orchestrator_cost=own.amount if own is not None else None,
        latency_s=duration_from_proto(found.features.latency),
        actions=len(replies),
        malformed_actions=sum(reply.action.HasField("malformed") for reply in replies),
        tool_calls=len(calls),
        failed_tool_calls=sum(call.observation.HasField("failure") for call in calls),
        calls=Counter(name for call in calls for name in _names(call)),
        model_versions=tuple(sorted(versions)),
    )


def _names(call: trajectory_pb2.ToolInvocation) -> list[str]:
    tool = call.observation.call.tool_name
    return [tool, f"{tool}/{call.model}"] if call.model else [tool]


def _cost(found: trajectory_pb2.Trajectory) -> Decimal | None:
    """The episode's own cost, without its check's; None when a call had no price."""
    money = optional_money_from_proto(found.features.cost)
    return money.amount if money is not None and not found.unpriced_call_count else None

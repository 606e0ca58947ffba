from collections.abc import Sequence

from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.money import Money
from podium_kit.wire import duration_to_proto, money_to_proto, timestamp_from_proto
from tool_registry.history.adherence import PolicyScores, ScoredEpisode
from tool_registry.history.dry_run import DryRun, RejectedGroup
from tool_registry.history.past_episodes import Selection
from tool_registry.history.service import PolicyHistory


def selection_from_proto(history: PolicyHistory, past: pb.PastEpisodes) -> Selection:
    since = timestamp_from_proto(past.start_time) if past.HasField("start_time") else None
    return history.selection(since, past.limit, past.policy)


def dry_run_to_proto(run: DryRun) -> pb.DryRunPolicyResponse:
    return pb.DryRunPolicyResponse(
        episode_count=run.episode_count,
        call_count=run.call_count,
        rejected_call_count=run.rejected_call_count,
        affected_episode_count=run.affected_episode_count,
        approval_call_count=run.approval_call_count,
        cost=_optional_money(run.cost),
        rejected_cost=_optional_money(run.rejected_cost),
        rejected=[_rejected_to_proto(group) for group in run.rejected],
        solved_episode_count=run.solved_episode_count,
        affected_solved_episode_count=run.affected_solved_episode_count,
    )


def adherence_to_proto(policies: Sequence[PolicyScores]) -> pb.ReportAdherenceResponse:
    # Ids are UUIDv7: their order is that of time.
    newest_first = sorted(
        (each for policy in policies for each in policy.scored),
        key=lambda scored: scored.episode.id,
        reverse=True,
    )
    return pb.ReportAdherenceResponse(
        policies=[_policy_to_proto(policy) for policy in policies],
        episodes=[_episode_to_proto(each) for each in newest_first],
    )


def _policy_to_proto(policy: PolicyScores) -> pb.PolicyAdherence:
    scored = len(policy.scored)
    return pb.PolicyAdherence(
        policy_name=policy.policy_name,
        policy_version=policy.policy_version,
        scored_count=scored,
        without_baseline_count=policy.without_baseline,
        without_outcome_count=policy.without_outcome,
        without_cost_count=policy.without_cost,
        solved_count=sum(each.solved for each in policy.scored),
        total_score=policy.total_score,
        mean_score=policy.total_score / scored if scored else 0.0,
        mean_cost=_optional_money(policy.mean_cost),
        mean_latency=duration_to_proto(policy.mean_latency_s),
    )


def _episode_to_proto(scored: ScoredEpisode) -> pb.EpisodeAdherence:
    return pb.EpisodeAdherence(
        episode_id=scored.episode.id,
        policy_name=scored.episode.policy_name,
        policy_version=scored.episode.policy_version,
        solved=scored.solved,
        score=scored.score,
    )


def _rejected_to_proto(group: RejectedGroup) -> pb.RejectedCalls:
    return pb.RejectedCalls(
        tool_name=group.tool_name,
        model_alias=group.model_alias,
        reason=group.reason,
        call_count=group.call_count,
        episode_count=group.episode_count,
        cost=_optional_money(group.cost),
        unpriced_call_count=group.unpriced_call_count,
    )


def _optional_money(money: Money | None) -> money_pb2.Money | None:
    return None if money is None else money_to_proto(money)

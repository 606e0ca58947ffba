"""Changes that a policy would have made in past episodes. Pure.

Prices and measurements are those of now. What the orchestrator would have done instead
of a rejected call is unknown; what is known is the money that would not have been spent.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from podium_kit.money import Money
from tool_registry.history.past_episodes import PastCall, PastEpisode
from tool_registry.toolsets.resolver import CallDecision

Decide = Callable[[PastCall], CallDecision]


@dataclass(frozen=True)
class RejectedGroup:
    tool_name: str
    model_alias: str
    reason: str
    call_count: int
    episode_count: int
    cost: Money | None
    unpriced_call_count: int


@dataclass(frozen=True)
class DryRun:
    """The changes; costs are sums over the calls whose cost is known."""

    episode_count: int
    call_count: int
    rejected_call_count: int
    affected_episode_count: int
    approval_call_count: int
    cost: Money | None
    rejected_cost: Money | None
    rejected: tuple[RejectedGroup, ...]
    solved_episode_count: int
    affected_solved_episode_count: int


def dry_run(episodes: Sequence[PastEpisode], decide: Decide) -> DryRun:
    decided = [(episode.id, call, decide(call)) for episode in episodes for call in episode.calls]
    rejected = [each for each in decided if not each[2].allowed]
    affected = {episode_id for episode_id, _, _ in rejected}
    solved = {each.id for each in episodes if _solved(each)}
    return DryRun(
        episode_count=len(episodes),
        call_count=len(decided),
        rejected_call_count=len(rejected),
        affected_episode_count=len(affected),
        approval_call_count=sum(decision.needs_approval for _, _, decision in decided),
        cost=_sum(call.cost for _, call, _ in decided),
        rejected_cost=_sum(call.cost for _, call, _ in rejected),
        rejected=_groups(rejected),
        solved_episode_count=len(solved),
        affected_solved_episode_count=len(solved & affected),
    )


def _solved(episode: PastEpisode) -> bool:
    return bool(episode.answered if episode.solved is None else episode.solved)


def _groups(rejected: Iterable[tuple[str, PastCall, CallDecision]]) -> tuple[RejectedGroup, ...]:
    groups: defaultdict[tuple[str, str, str], list[tuple[str, PastCall]]] = defaultdict(list)
    for episode_id, call, decision in rejected:
        groups[call.tool_name, call.model_alias, decision.reason].append((episode_id, call))
    found = [
        RejectedGroup(
            *key,
            call_count=len(members),
            episode_count=len({episode_id for episode_id, _ in members}),
            cost=_sum(call.cost for _, call in members),
            unpriced_call_count=sum(call.cost is None for _, call in members),
        )
        for key, members in groups.items()
    ]
    return tuple(sorted(found, key=lambda group: -group.call_count))


def _sum(costs: Iterable[Money | None]) -> Money | None:
    """None when there are no known costs, or two currencies."""
    known = [cost for cost in costs if cost is not None]
    if len({cost.currency_code for cost in known}) != 1:
        return None
    return sum(known[1:], start=known[0])

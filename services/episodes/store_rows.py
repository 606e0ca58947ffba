"""Database rows as domain values."""

from decimal import Decimal
from typing import Any

from episodes.keys import StepKind
from episodes.models import (
    End,
    Ending,
    EpisodeState,
    Membership,
    NewEpisode,
    Progress,
    Step,
    StopReason,
    StoredEpisode,
)
from podium_kit.money import Money


def money_of(amount: Decimal | None, currency: str | None) -> Money | None:
    """The amount, or None when it is unknown."""
    return None if amount is None or currency is None else Money(amount, currency)


def step_of(row: Any) -> Step:
    return Step(
        episode_id=str(row.episode_id),
        sequence=row.sequence,
        turn=row.turn,
        kind=StepKind(row.kind),
        call_index=row.call_index,
        body=row.body,
        settled=row.settled,
        cost=money_of(row.cost, row.currency),
        create_time=row.create_time,
    )


def episode_of(row: Any) -> StoredEpisode:
    """An episode with what it has done so far."""
    return StoredEpisode(
        new=_new_episode_of(row),
        create_time=row.create_time,
        state=_state_of(row),
        progress=_progress_of(row, money_of(row.cost, row.currency)),
        ending=_ending_of(row),
        end_time=row.end_time,
        awaits_approval=bool(row.awaits_approval),
    )


def accepted_of(row: Any) -> StoredEpisode:
    """An episode as it was accepted, whatever it has done since."""
    return StoredEpisode(_new_episode_of(row), row.create_time, EpisodeState.PENDING, Progress())


def end_of(row: Any) -> End:
    """Of an episode that has ended, whose sums are in columns apart from a step's."""
    return End(
        progress=_progress_of(row, money_of(row.total_cost, row.total_currency)),
        ending=Ending(StopReason(row.stop_reason), row.answer, row.failure),
        time=row.end_time,
    )


def _progress_of(row: Any, cost: Money | None) -> Progress:
    return Progress(
        turn_count=row.turn_count,
        tool_call_count=row.tool_call_count,
        cost=cost,
        unpriced_call_count=row.unpriced_call_count,
        usage=row.usage,
    )


def _new_episode_of(row: Any) -> NewEpisode:
    return NewEpisode(
        episode_id=str(row.id),
        tenant=row.tenant,
        subject=row.subject,
        groups=frozenset(row.groups),
        spec=row.spec,
        toolset=row.toolset,
        toolset_digest=row.toolset_digest,
        policy_name=row.policy_name,
        policy_version=row.policy_version,
        membership=Membership(row.group_id, row.group_size, row.sample_index, row.task_id),
        labels=dict(row.labels),
        turn_limit=row.turn_limit,
        time_limit_s=row.time_limit_s,
    )


def _state_of(row: Any) -> EpisodeState:
    if row.stop_reason is not None:
        return EpisodeState.FINISHED
    if row.waits is None:
        return EpisodeState.PENDING
    return EpisodeState.WAITING if row.waits else EpisodeState.RUNNING


def _ending_of(row: Any) -> Ending | None:
    if row.stop_reason is None:
        return None
    return Ending(StopReason(row.stop_reason), row.answer, row.failure)

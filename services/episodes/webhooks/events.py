"""Events of webhooks and of a tenant's stream: ids, states, costs, no text of users or models."""

import hashlib
from datetime import UTC, datetime

from uuid_utils import uuid7

from episodes.models import Ending, NewEpisode, OutboxRecord, Progress
from episodes.webhooks.models import Event, EventType, PassedLimit, StreamedEventType
from podium_kit.money import Money


def episode_started(episode: NewEpisode) -> Event:
    return Event(
        episode.tenant,
        StreamedEventType.EPISODE_STARTED,
        f"episode-started-{episode.episode_id}",
        {
            "episode_id": episode.episode_id,
            "started_by": episode.subject,
            "policy_name": episode.policy_name,
        },
    )


def episode_ended(
    record: OutboxRecord, episode_id: str, ending: Ending, progress: Progress
) -> Event:
    cost = progress.cost
    return Event(
        record.tenant,
        EventType.EPISODE_ENDED,
        f"episode-ended-{episode_id}",
        {
            "episode_id": episode_id,
            "stop_reason": ending.stop_reason.value,
            "turn_count": progress.turn_count,
            "tool_call_count": progress.tool_call_count,
            "cost": cost and _money(cost),
            "unpriced_call_count": progress.unpriced_call_count,
        },
    )


def approval_requested(
    episode: NewEpisode, turn: int, call_index: int, tool_name: str, until: datetime
) -> Event:
    return Event(
        episode.tenant,
        EventType.APPROVAL_REQUESTED,
        f"approval-requested-{episode.episode_id}-{turn}-{call_index}",
        {
            "episode_id": episode.episode_id,
            "turn": turn,
            "call_index": call_index,
            "tool_name": tool_name,
            "expire_time": _time(until),
        },
    )


def approval_decided(
    tenant: str, episode_id: str, turn: int, call_index: int, *, approved: bool
) -> Event:
    return Event(
        tenant,
        StreamedEventType.APPROVAL_DECIDED,
        f"approval-decided-{episode_id}-{turn}-{call_index}",
        {
            "episode_id": episode_id,
            "turn": turn,
            "call_index": call_index,
            "approved": approved,
        },
    )


def budget_alert(tenant: str, passed: PassedLimit) -> Event:
    # The ledger's id holds full stops, which separate the parts of what is signed.
    digest = hashlib.sha256(passed.id.encode()).hexdigest()
    return Event(
        tenant,
        EventType.BUDGET_ALERT,
        f"budget-alert-{digest}",
        {
            "budget_id": passed.budget_id,
            "window_start": _time(passed.window_start),
            "soft_limit": _money(passed.soft_limit),
            "posted": _money(passed.posted),
            "hard_limit": _money(passed.hard_limit),
            "share": passed.share,
            "create_time": _time(passed.create_time),
        },
    )


def feedback_given(tenant: str, episode_id: str, feedback_id: str, score: float | None) -> Event:
    digest = hashlib.sha256(feedback_id.encode()).hexdigest()[:32]
    return Event(
        tenant,
        EventType.FEEDBACK_GIVEN,
        f"feedback-given-{episode_id}-{digest}",
        {"episode_id": episode_id, "feedback_id": feedback_id, "score": score},
    )


def version_promoted(tenant: str, promotion: int, version: str, previous: str) -> Event:
    return Event(
        tenant,
        EventType.VERSION_PROMOTED,
        f"version-promoted-{promotion}",
        {"version": version, "previous": previous},
    )


def record_dead_lettered(record: OutboxRecord, reason: str) -> Event:
    """Every rejection of a record is an event of its own."""
    return Event(
        record.tenant,
        EventType.RECORD_DEAD_LETTERED,
        f"record-dead-lettered-{uuid7()}",
        {"record_id": record.record_id, "kind": record.kind, "reason": reason},
    )


def _money(money: Money) -> dict[str, str]:
    return {"currency_code": money.currency_code, "amount": money.amount_string()}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")

"""Rows of the journal's tables as domain values, and back as JSON that PostgreSQL reads.

Decimals travel as strings in both directions, so no amount ever is a float.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from cost_ledger.books import Answer
from cost_ledger.models import (
    BudgetWindowKey,
    Call,
    Entry,
    EntryKind,
    FittingAlternative,
    Hold,
    HoldState,
    Refusal,
    RefusalReason,
    Subject,
)
from metering import Dimension, Quantity, Usage, UsageSource
from money import Money

Row = Mapping[str, Any]


def to_json(rows: Iterable[dict[str, Any]]) -> str:
    """Rows for json_to_recordset; times and decimals as text."""
    return json.dumps(list(rows), default=str)


def entry_row(entry: Entry) -> dict[str, Any]:
    """The columns of `entry`."""
    usage = entry.usage
    return {
        **_call_row(entry.call),
        **_money_row(entry.amount),
        "sequence": entry.sequence,
        "kind": entry.kind,
        "quantities": _quantities_row(usage.quantities) if usage else None,
        "usage_source": usage.source if usage else None,
        "provider_request_id": usage.provider_request_id if usage else None,
        "price_version_id": entry.price_version_id,
        "occur_time": entry.occur_time,
        "create_time": entry.create_time,
        "corrects_sequence": entry.corrects_sequence,
        "reason": entry.reason,
    }


def hold_row(hold: Hold) -> dict[str, Any]:
    """The columns of `hold`."""
    return {
        **_call_row(hold.call),
        **_money_row(hold.amount),
        "worst_case": _quantities_row(hold.worst_case),
        "state": hold.state,
        "price_version_id": hold.price_version_id,
        "create_time": hold.create_time,
        "expire_time": hold.expire_time,
        "posted_sequence": hold.posted_sequence,
    }


def answer_row(tenant: str, operation: str, key: str, answer: Answer) -> dict[str, Any]:
    """The columns of `idempotency`."""
    return {
        "tenant": tenant,
        "operation": operation,
        "key": key,
        "request_hash": answer.request_hash,
        "sequence": answer.sequence,
        "refusal": asdict(answer.refusal) if answer.refusal else None,
    }


def entry_from_row(row: Row) -> Entry:
    """The entry; an entry without quantities has no usage."""
    return Entry(
        sequence=row["sequence"],
        kind=EntryKind(row["kind"]),
        call=_call_from_row(row),
        usage=_usage_from_row(row),
        amount=_money_from_row(row),
        price_version_id=row["price_version_id"],
        occur_time=moment(row["occur_time"]),
        create_time=moment(row["create_time"]),
        corrects_sequence=row["corrects_sequence"],
        reason=row["reason"],
    )


def hold_from_row(row: Row) -> Hold:
    """The hold."""
    return Hold(
        call=_call_from_row(row),
        worst_case=_quantities_from_row(row["worst_case"]),
        amount=_money_from_row(row),
        state=HoldState(row["state"]),
        price_version_id=row["price_version_id"],
        create_time=moment(row["create_time"]),
        expire_time=moment(row["expire_time"]),
        posted_sequence=row["posted_sequence"],
    )


def answer_from_row(row: Row) -> Answer:
    """The answer a key has for ever."""
    return Answer(row["request_hash"], row["sequence"], _refusal_from_row(row["refusal"]))


def moment(value: str | datetime) -> datetime:
    """A time as the driver or as JSON gives it."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _call_row(call: Call) -> dict[str, Any]:
    subject = call.subject
    return {
        "tenant": call.tenant,
        "key": call.key,
        "episode_id": subject.episode_id,
        "turn": subject.turn,
        "tool": subject.tool,
        "model": subject.model,
        "team": subject.team,
        "user_id": subject.user,
        "agent": subject.agent,
        "sku": call.sku,
        "service_class": call.service_class,
        "region": call.region,
        "windows": [[key.budget_id, key.start, key.currency_code] for key in call.windows],
    }


def _call_from_row(row: Row) -> Call:
    tenant = row["tenant"]
    return Call(
        tenant=tenant,
        key=row["key"],
        subject=Subject(
            episode_id=row["episode_id"],
            turn=row["turn"],
            tool=row["tool"],
            model=row["model"],
            team=row["team"],
            user=row["user_id"],
            agent=row["agent"],
        ),
        sku=row["sku"],
        windows=tuple(
            BudgetWindowKey(tenant, budget_id, moment(start), currency)
            for budget_id, start, currency in row["windows"]
        ),
        service_class=row["service_class"],
        region=row["region"],
    )


def _money_row(money: Money | None) -> dict[str, Any]:
    return {
        "amount": money.amount if money else None,
        "currency": money.currency_code if money else None,
    }


def _money_from_row(row: Row) -> Money | None:
    return None if row["amount"] is None else Money(Decimal(row["amount"]), row["currency"])


def _quantities_row(quantities: tuple[Quantity, ...]) -> dict[str, str]:
    return {quantity.dimension.value: str(quantity.amount) for quantity in quantities}


def _quantities_from_row(amounts: Mapping[str, str]) -> tuple[Quantity, ...]:
    return tuple(Quantity(Dimension(name), Decimal(text)) for name, text in amounts.items())


def _usage_from_row(row: Row) -> Usage | None:
    if row["quantities"] is None:
        return None
    return Usage(
        _quantities_from_row(row["quantities"]),
        UsageSource(row["usage_source"]),
        row["provider_request_id"],
    )


def _refusal_from_row(row: Row | None) -> Refusal | None:
    if row is None:
        return None
    remaining, alternative = row["remaining"], row.get("alternative")
    return Refusal(
        reason=RefusalReason(row["reason"]),
        message=row["message"],
        budget_id=row["budget_id"],
        remaining=remaining and _plain_money(remaining),
        fitting_output_tokens=row["fitting_output_tokens"],
        alternative=alternative
        and FittingAlternative(
            alternative["tool"],
            alternative["model"],
            _plain_money(alternative["worst_case_cost"]),
        ),
    )


def _plain_money(fields: Row) -> Money:
    return Money(Decimal(fields["amount"]), fields["currency_code"])

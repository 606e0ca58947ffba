"""Rows of the journal's tables as domain values, and back as values of their columns.

Rows are written as one array per column and read as JSON, whose numbers are parsed as
decimals, so no amount ever is a float.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from cost_ledger.fingerprint import quantities_text
from cost_ledger.models import (
    BudgetWindowKey,
    Call,
    Entry,
    EntryKind,
    Fallback,
    FittingAlternative,
    Hold,
    HoldState,
    IdempotencyRecord,
    Postings,
    Rejection,
    RejectionReason,
    Subject,
)
from cost_ledger.posting.books import Head
from cost_ledger.store_engine import parsed
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.money import Money

Row = Mapping[str, Any]
ACCOUNTS = ("held", "available", "spend", "provisional", "suspense", "payable")
# Column by column: its name and its type in PostgreSQL.
CALL_COLUMNS = {
    "tenant": "text",
    "key": "text",
    "episode_id": "text",
    "turn": "integer",
    "tool": "text",
    "model": "text",
    "team": "text",
    "user_id": "text",
    "agent": "text",
    "sku": "text",
    "service_class": "text",
    "region": "text",
    "policy_version": "text",
    "windows": "json",
}
ENTRY_COLUMNS = {
    **CALL_COLUMNS,
    "sequence": "bigint",
    "kind": "text",
    "quantities": "jsonb",
    "usage_source": "text",
    "provider_request_id": "text",
    "dispatched": "boolean",
    "expire_time": "timestamptz",
    "hold_unit": "text",
    "held": "numeric",
    "available": "numeric",
    "unit": "text",
    "spend": "numeric",
    "provisional": "numeric",
    "suspense": "numeric",
    "payable": "numeric",
    "price_version_id": "text",
    "occur_time": "timestamptz",
    "create_time": "timestamptz",
    "corrects_sequence": "bigint",
    "reason": "text",
    "hash": "bytea",
}
HOLD_COLUMNS = {
    **CALL_COLUMNS,
    "worst_case": "jsonb",
    "amount": "numeric",
    "currency": "text",
    "state": "text",
    "dispatched": "boolean",
    "price_version_id": "text",
    "create_time": "timestamptz",
    "expire_time": "timestamptz",
    "posted_sequence": "bigint",
    "fallbacks": "json",
    "reserve_hash": "text",
    "reserve_sequence": "bigint",
    "capture_hash": "text",
    "capture_sequence": "bigint",
}
HOLD_DOCUMENTS = ("windows", "worst_case", "fallbacks")
# What of a hold changes, and which hold it is.
HOLD_CHANGE_COLUMNS = {
    name: HOLD_COLUMNS[name]
    for name in (
        *("tenant", "key", "state", "dispatched", "posted_sequence"),
        *("capture_hash", "capture_sequence"),
    )
}
IDEMPOTENCY_COLUMNS = {
    "tenant": "text",
    "operation": "text",
    "key": "text",
    "request_hash": "text",
    "sequence": "bigint",
    "occur_time": "timestamptz",
    "rejection": "json",
}


def entry_values(entry: Entry) -> tuple[object, ...]:
    usage, posted = entry.usage, entry.postings
    quantities = usage.quantities if usage else entry.worst_case
    return (
        *entry.call.columns,
        _windows_text(entry.call),
        entry.sequence,
        entry.kind.value,
        json.dumps(quantities_text(quantities)),
        usage.source.value if usage else None,
        usage.provider_request_id if usage else None,
        entry.dispatched,
        entry.expire_time,
        posted.hold_unit,
        posted.held,
        posted.available,
        posted.unit,
        posted.spend,
        posted.provisional,
        posted.suspense,
        posted.payable,
        entry.price_version_id,
        entry.occur_time,
        entry.create_time,
        entry.corrects_sequence,
        entry.reason,
        entry.hash,
    )


def hold_values(hold: Hold) -> tuple[object, ...]:
    amount = hold.amount
    return (
        *hold.call.columns,
        _windows_text(hold.call),
        json.dumps(quantities_text(hold.worst_case)),
        amount.amount if amount else None,
        amount.currency_code if amount else None,
        hold.state.value,
        hold.dispatched,
        hold.price_version_id,
        hold.create_time,
        hold.expire_time,
        hold.posted_sequence,
        _fallbacks_text(hold.fallbacks),
        *_answer_values(hold.reserved),
        *_answer_values(hold.captured),
    )


def hold_change_values(hold: Hold) -> tuple[object, ...]:
    key = hold.call.tenant, hold.call.key
    captured = _answer_values(hold.captured)
    return (*key, hold.state.value, hold.dispatched, hold.posted_sequence, *captured)


def _answer_values(answer: IdempotencyRecord | None) -> tuple[str, int]:
    return (answer.request_hash, answer.sequence) if answer else ("", 0)


def idempotency_values(
    tenant: str, operation: str, key: str, answer: IdempotencyRecord
) -> tuple[object, ...]:
    rejection = json.dumps(asdict(answer.rejection), default=str) if answer.rejection else None
    return (
        tenant,
        operation,
        key,
        answer.request_hash,
        answer.sequence,
        answer.occur_time,
        rejection,
    )


def entry_from_json(row: str) -> Entry:
    return entry_from_row(parsed(row))


def entry_from_row(row: Row) -> Entry:
    """The entry; without a source of usage, its quantities are a worst case."""
    source, quantities = row["usage_source"], _quantities_from_row(row["quantities"] or {})
    usage = Usage(quantities, UsageSource(source), row["provider_request_id"]) if source else None
    expire_time = row["expire_time"]
    return Entry(
        sequence=row["sequence"],
        kind=EntryKind(row["kind"]),
        call=_call_from_row(row),
        postings=_postings_from_row(row),
        price_version_id=row["price_version_id"],
        occur_time=moment(row["occur_time"]),
        create_time=moment(row["create_time"]),
        usage=usage,
        worst_case=() if usage else quantities,
        dispatched=row["dispatched"],
        expire_time=expire_time and moment(expire_time),
        corrects_sequence=row["corrects_sequence"],
        reason=row["reason"],
        hash=_bytes(row["hash"]),
    )


def hold_from_record(record: Row) -> Hold:
    """The hold of a record of the driver's, whose columns of JSON are texts."""
    documents = {name: parsed(record[name]) for name in HOLD_DOCUMENTS}
    return hold_from_row({**record, **documents})


def hold_from_row(row: Row) -> Hold:
    return Hold(
        call=_call_from_row(row),
        worst_case=_quantities_from_row(row["worst_case"]),
        amount=_money_from_row(row),
        state=HoldState(row["state"]),
        price_version_id=row["price_version_id"],
        create_time=moment(row["create_time"]),
        expire_time=moment(row["expire_time"]),
        dispatched=row["dispatched"],
        posted_sequence=row["posted_sequence"],
        fallbacks=tuple(Fallback(*each) for each in row["fallbacks"]),
        reserved=_answer_of(row["reserve_hash"], row["reserve_sequence"]),
        captured=_answer_of(row["capture_hash"], row["capture_sequence"]),
    )


def _answer_of(request_hash: str, sequence: int) -> IdempotencyRecord | None:
    return IdempotencyRecord(request_hash, sequence) if sequence else None


def head_from_row(row: Row) -> Head:
    closed_before = row["closed_before"]
    return Head(
        row["sequence"],
        bytes.fromhex(row["hash"]),
        closed_before and moment(closed_before),
        row["budget_changes"],
    )


def idempotency_record_from_row(row: Row) -> IdempotencyRecord:
    occur_time = row["occur_time"]
    return IdempotencyRecord(
        row["request_hash"],
        row["sequence"],
        _rejection_from_row(parsed(row["rejection"])),
        occur_time and moment(occur_time),
    )


def moment(value: str | datetime) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _windows_text(call: Call) -> str:
    return json.dumps(
        [
            [key.budget_id, key.start.isoformat(), key.currency_code, *filter(None, [key.model])]
            for key in call.windows
        ]
    )


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
            BudgetWindowKey(tenant, budget_id, moment(start), currency, *model)
            for budget_id, start, currency, *model in row["windows"]
        ),
        service_class=row["service_class"],
        region=row["region"],
        policy_version=row["policy_version"],
    )


def _fallbacks_text(fallbacks: tuple[Fallback, ...]) -> str:
    columns = [[each.model, each.sku, each.price_version_id] for each in fallbacks]
    return json.dumps(columns) if columns else "[]"


def _money_from_row(row: Row) -> Money | None:
    return None if row["amount"] is None else Money(Decimal(row["amount"]), row["currency"])


def _quantities_from_row(amounts: Mapping[str, str]) -> tuple[Quantity, ...]:
    return tuple(Quantity(Dimension(name), Decimal(text)) for name, text in amounts.items())


def _postings_from_row(row: Row) -> Postings:
    amounts = {name: Decimal(row[name]) for name in ACCOUNTS}
    return Postings(hold_unit=row["hold_unit"], unit=row["unit"], **amounts)


def _bytes(value: bytes | str) -> bytes:
    """bytea as the driver or as JSON gives it."""
    return bytes.fromhex(value.removeprefix("\\x")) if isinstance(value, str) else value


def _rejection_from_row(row: Row | None) -> Rejection | None:
    if row is None:
        return None
    remaining, alternative = row["remaining"], row.get("alternative")
    return Rejection(
        reason=RejectionReason(row["reason"]),
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

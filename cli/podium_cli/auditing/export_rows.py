"""Charges as flat rows: one per part of a cost, so that the parts sum to what was posted.

A cost without parts (a price is unknown, or the worst case of a hold was posted) is one
row per quantity without an amount, or one row with the amount.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from podium.ledger.v1 import audit_pb2
from podium_cli.auditing.explanation_view import dimension_word, kind_word
from podium_kit.wire import timestamp_from_proto


@dataclass(frozen=True)
class Field:
    """A column: its name and its type, one of text, time, count, money, price, quantity."""

    name: str
    kind: str


FIELDS = (
    Field("tenant", "text"),
    Field("sequence", "count"),
    Field("kind", "text"),
    Field("key", "text"),
    Field("occur_time", "time"),
    Field("create_time", "time"),
    Field("episode", "text"),
    Field("turn", "count"),
    Field("tool", "text"),
    Field("model", "text"),
    Field("team", "text"),
    Field("user", "text"),
    Field("agent", "text"),
    Field("sku", "text"),
    Field("price_version", "text"),
    Field("provider_request_id", "text"),
    Field("corrects_sequence", "count"),
    Field("dimension", "text"),
    Field("quantity", "quantity"),
    Field("unit_price", "price"),
    Field("per", "quantity"),
    Field("amount", "money"),
    Field("currency", "text"),
    Field("hash", "text"),
)
Row = dict[str, Any]


def rows_of(charge: audit_pb2.Charge, tenant: str) -> Iterator[Row]:
    shared = _shared(charge, tenant)
    if charge.lines:
        for line in charge.lines:
            yield shared | _part(line)
    elif charge.entry.HasField("amount"):
        yield shared | _whole(charge)
    else:
        for quantity in charge.entry.usage.quantities:
            yield shared | {
                "dimension": dimension_word(quantity.dimension),
                "quantity": Decimal(quantity.amount),
            }


def moment(charge: audit_pb2.Charge, field: str) -> datetime:
    return timestamp_from_proto(getattr(charge.entry, field))


def _shared(charge: audit_pb2.Charge, tenant: str) -> Row:
    entry = charge.entry
    subject = entry.subject
    return dict.fromkeys((field.name for field in FIELDS), None) | {
        "tenant": tenant,
        "sequence": entry.sequence,
        "kind": kind_word(entry),
        "key": entry.key,
        "occur_time": moment(charge, "occur_time"),
        "create_time": moment(charge, "create_time"),
        "episode": subject.episode_id,
        "turn": subject.turn,
        "tool": subject.tool,
        "model": subject.model,
        "team": subject.team,
        "user": subject.user,
        "agent": subject.agent,
        "sku": entry.sku,
        "price_version": entry.price_version_id,
        "provider_request_id": entry.usage.provider_request_id,
        "corrects_sequence": entry.corrects_sequence or None,
        "hash": entry.hash.hex(),
    }


def _part(line: audit_pb2.ChargeLine) -> Row:
    return {
        "dimension": dimension_word(line.quantity.dimension),
        "quantity": Decimal(line.quantity.amount),
        "unit_price": Decimal(line.unit_price) if line.unit_price else None,
        "per": Decimal(line.per) if line.per else None,
        "amount": Decimal(line.amount.amount or 0),
        "currency": line.amount.currency_code or None,
    }


def _whole(charge: audit_pb2.Charge) -> Row:
    amount = charge.entry.amount
    return {"amount": Decimal(amount.amount), "currency": amount.currency_code}

"""Charges as flat rows: one per part of a cost, so that the parts sum to what was posted.

A cost without parts (a price is unknown, or the worst case of a hold was posted) is one
row per quantity without an amount, or one row with the amount. A call of which nothing is
known, as one that was cut off, is one row without either.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from cost_ledger.exports.models import Charge
from cost_ledger.fingerprint import decimal_text

Value = str | int | Decimal | datetime | None
Row = dict[str, Value]


class ColumnKind(StrEnum):
    TEXT = "text"
    COUNT = "count"
    TIME = "time"
    MONEY = "money"
    PRICE = "price"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: ColumnKind = ColumnKind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows_of: Callable[[Charge], Iterator[Row]]

    def texts_of(self, charge: Charge) -> Iterator[list[str]]:
        for row in self.rows_of(charge):
            yield [_text(row.get(column.name)) for column in self.columns]


def rows_of(charge: Charge) -> Iterator[Row]:
    shared, cost, usage = _shared(charge), charge.entry.cost, charge.entry.usage
    if charge.lines:
        for line in charge.lines:
            part = line.component
            yield shared | {
                "dimension": line.dimension_text,
                "quantity": line.quantity.amount,
                "unit_price": part.unit_price if part else None,
                "per": part.per if part else None,
                "amount": line.amount,
                "currency": charge.price.currency_code if part and charge.price else None,
            }
    elif cost:
        yield shared | {"amount": cost.amount, "currency": cost.currency_code}
    elif usage and usage.quantities:
        for quantity in usage.quantities:
            name = quantity.dimension.value.replace("_", " ")
            yield shared | {"dimension": name, "quantity": quantity.amount}
    else:
        yield shared


def _shared(charge: Charge) -> Row:
    entry = charge.entry
    call, subject = entry.call, entry.call.subject
    return {
        "tenant": call.tenant,
        "sequence": entry.sequence,
        "kind": entry.kind.value,
        "key": call.key,
        "occur_time": entry.occur_time,
        "create_time": entry.create_time,
        "episode": subject.episode_id,
        "turn": subject.turn,
        "tool": subject.tool,
        "model": subject.model,
        "team": subject.team,
        "user": subject.user,
        "agent": subject.agent,
        "sku": call.sku,
        "price_version": entry.price_version_id,
        "provider_request_id": entry.usage.provider_request_id if entry.usage else "",
        "corrects_sequence": entry.corrects_sequence or None,
        "hash": entry.hash.hex(),
    }


def _text(value: Value) -> str:
    match value:
        case None:
            return ""
        case Decimal():
            # With a point, so that no reader takes a column of whole amounts for integers.
            text = decimal_text(value)
            return text if "." in text else f"{text}.0"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


CHARGES = Table(
    (
        Column("tenant"),
        Column("sequence", ColumnKind.COUNT),
        Column("kind"),
        Column("key"),
        Column("occur_time", ColumnKind.TIME),
        Column("create_time", ColumnKind.TIME),
        Column("episode"),
        Column("turn", ColumnKind.COUNT),
        *map(Column, ("tool", "model", "team", "user", "agent", "sku", "price_version")),
        Column("provider_request_id"),
        Column("corrects_sequence", ColumnKind.COUNT),
        Column("dimension"),
        Column("quantity", ColumnKind.QUANTITY),
        Column("unit_price", ColumnKind.PRICE),
        Column("per", ColumnKind.QUANTITY),
        Column("amount", ColumnKind.MONEY),
        Column("currency"),
        Column("hash"),
    ),
    rows_of,
)

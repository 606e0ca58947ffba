"""Rows of direct calls."""

from typing import Any

from episodes.direct_calls.models import StoredCall
from podium_kit.money import Money


def call_of(row: Any) -> StoredCall:
    """Of a row with all columns of the table."""
    return StoredCall(
        id=str(row.id),
        tenant=row.tenant,
        subject=row.subject,
        groups=frozenset(row.groups),
        spec=bytes(row.spec),
        toolset=bytes(row.toolset),
        create_time=row.create_time,
        answer=None if row.answer is None else bytes(row.answer),
        cost=None if row.cost is None else Money(row.cost, row.currency),
        ended=row.end_time is not None,
    )

"""Daily sums of the journal up to a watermark, moved on in the transaction that adds to them.

A tenant's sequences are committed in order and without gaps, so "every entry up to the
watermark, once" needs no more than the watermark.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, TEXT
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.store_engine import journal_errors
from podium_kit.postgres.engine import autocommit

# Enough that a step costs little beyond its rows, few enough that a report, which waits for
# its tenant's step to end, never waits for long.
ENTRIES_PER_STEP = 5_000
TENANTS_PER_STEP = 200

BEHIND = text("SELECT tenants_behind() AS tenant")
# A transaction of one statement, whose scope is there before the function looks at a row.
ROLL_UP = text(
    """
    WITH scope AS MATERIALIZED (
        SELECT set_config('ledger.tenants', CAST(CAST(:tenants AS text[]) AS text), true) AS tenants
    )
    SELECT roll_up(CAST(scope.tenants AS text[]), :count_max) FROM scope
    """
).bindparams(bindparam("tenants", type_=ARRAY(TEXT)))


class RollupStore:
    """Keeps `rollup_day`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def advance(self) -> int:
        """Adds what is new for every tenant; how many entries that were."""
        async with autocommit(self._engine) as connection:
            tenants = (await connection.execute(BEHIND)).scalars().all()
        starts = range(0, len(tenants), TENANTS_PER_STEP)
        return sum([await self.advance_of(tenants[at : at + TENANTS_PER_STEP]) for at in starts])

    async def advance_of(self, tenants: Sequence[str]) -> int:
        """Adds what is new for these; how many entries that were."""
        total = 0
        while added := await self._step(tenants):
            total += added
            if added < ENTRIES_PER_STEP:
                break  # the step had room left, so these tenants are done
        return total

    async def _step(self, tenants: Sequence[str]) -> int:
        asked = {"tenants": sorted(set(tenants)), "count_max": ENTRIES_PER_STEP}
        with journal_errors():
            async with autocommit(self._engine) as connection:
                return int((await connection.execute(ROLL_UP, asked)).scalar_one())

from collections.abc import AsyncIterator
from decimal import Decimal
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from bench.ledger.guaranteed_floor import SCHEMA, WRONG_BOOKS, connect
from embedded_servers import Database

TENANT, COST = 1, Decimal("0.01125")


@pytest_asyncio.fixture
async def floor(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await connect(await database())
    await connection.execute(SCHEMA)
    yield connection
    await connection.close()


async def reserve(floor: asyncpg.Connection, key: object, amount: Decimal = COST) -> int:
    return int(await floor.fetchval("SELECT sure_reserve($1, $2, $3)", TENANT, key, amount))


async def capture(floor: asyncpg.Connection, key: object) -> int:
    return int(await floor.fetchval("SELECT sure_capture($1, $2, $3)", TENANT, key, COST / 5))


async def test_a_key_has_one_effect_and_one_answer(floor: asyncpg.Connection) -> None:
    key = uuid4()
    assert [await reserve(floor, key), await capture(floor, key)] == [1, 2]
    assert [await reserve(floor, key), await capture(floor, key)] == [1, 2]
    record = "SELECT sure_record(1, $1, 1)"
    assert [await floor.fetchval(record, key), await floor.fetchval(record, key)] == [3, 3]
    assert await floor.fetchval("SELECT count(*) FROM sure_entry") == 3
    assert not await floor.fetch(WRONG_BOOKS)


async def test_what_does_not_fit_every_budget_is_rejected(floor: asyncpg.Connection) -> None:
    await floor.execute("UPDATE sure_window SET hard = 1 WHERE tenant = 1 AND budget = 2")
    key = uuid4()
    assert await reserve(floor, uuid4(), Decimal("0.75")) == 1
    assert await reserve(floor, key, Decimal("0.5")) == 0
    await floor.execute("UPDATE sure_window SET hard = 2 WHERE tenant = 1")
    assert await reserve(floor, key, Decimal("0.5")) == 0  # a rejection is an answer too
    assert await floor.fetchval("SELECT held FROM sure_balance WHERE tenant = 1") == Decimal("0.75")
    assert not await floor.fetch(WRONG_BOOKS)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sure_entry SET output = 99 WHERE sequence = 2",
        "UPDATE sure_balance SET spend = 0",
        "UPDATE sure_window SET posted = 0 WHERE budget = 3",
        "UPDATE sure_head SET sequence = 1",
        "DELETE FROM sure_hold",
    ],
)
async def test_wrong_books_are_found(floor: asyncpg.Connection, change: str) -> None:
    key = uuid4()
    await reserve(floor, key)
    await capture(floor, key)
    await reserve(floor, uuid4())
    assert not await floor.fetch(WRONG_BOOKS)
    await floor.execute(change)
    assert [row["tenant"] for row in await floor.fetch(WRONG_BOOKS)] == [TENANT]

from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from integration.cost_ledger.builders import make_budget, make_record, make_reserve
from integration.cost_ledger.running_ledger import RunningLedger, as_service
from integration.cost_ledger.sql_access import as_owner, as_tenants, rows_of
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Scope

CANARY = "canary-of-beta"
TENANT_TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE a.attname = 'tenant' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relnamespace = 'public'::regnamespace
"""


async def fill(ledger: RunningLedger) -> None:
    for tenant, name in (("acme", "plain"), ("beta", CANARY)):
        worker = ledger.as_(tenant)
        await ledger.as_(tenant, Scope.TENANT_ADMIN).budgets.CreateBudget(
            budgets_pb.CreateBudgetRequest(budget=make_budget(f"cap-{name}"))
        )
        await worker.ledger.Reserve(make_reserve(f"held-{name}"))
        await worker.ledger.Record(make_record(f"recorded-{name}"))


async def test_no_table_shows_a_row_of_another_tenant(ledger: RunningLedger) -> None:
    await fill(ledger)
    async with as_owner(ledger) as connection:
        tables = [name for (name,) in await rows_of(connection, TENANT_TABLES)]
        unprotected = "SELECT relname FROM pg_class WHERE relname = ANY(:t) AND NOT relrowsecurity"
        assert await rows_of(connection, unprotected, t=tables) == []
    assert {"entry", "hold", "balance", "ledger_head", "budget", "price_version"} <= set(tables)
    async with as_tenants(ledger, "acme") as connection:
        for table in [*tables, "posting"]:
            rows = await rows_of(connection, f"SELECT t.tenant, t::text FROM {table} t")
            assert {tenant for tenant, _ in rows} <= {"acme", ""}
            assert CANARY not in str(rows)
        assert await rows_of(connection, "SELECT count(*) FROM entry") == [(2,)]
    async with as_tenants(ledger) as connection:
        assert await rows_of(connection, "SELECT * FROM entry") == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET reason = 'x'",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "DELETE FROM idempotency",
        "DELETE FROM hold",
        "UPDATE price_component SET unit_price = 0",
        "ALTER TABLE entry DISABLE TRIGGER immutable",
        "ALTER TABLE entry DISABLE ROW LEVEL SECURITY",
        "SET ROLE postgres",
        f"SELECT * FROM entry_{datetime.now(UTC):%Y_%m}",
    ],
)
async def test_the_service_has_no_right_to_change_or_sidestep(
    ledger: RunningLedger, statement: str
) -> None:
    await fill(ledger)
    with pytest.raises((DBAPIError, DomainError)) as rejected:
        async with as_tenants(ledger, "acme") as connection:
            await connection.execute(text(statement))
    cause = rejected.value.__cause__ or rejected.value
    assert "permission denied" in str(cause) or "must be owner" in str(cause)


async def test_a_row_of_another_tenant_cannot_be_written(ledger: RunningLedger) -> None:
    with pytest.raises(DomainError) as rejected:
        async with as_tenants(ledger, "acme") as connection:
            await connection.execute(text("INSERT INTO ledger_head (tenant) VALUES ('beta')"))
    assert "row-level security" in str(rejected.value.__cause__)


async def test_the_service_is_no_owner_and_bypasses_nothing(ledger: RunningLedger) -> None:
    assert "cost_ledger_service@" in as_service(ledger.database_url)
    async with as_tenants(ledger, "acme") as connection:
        roles = await rows_of(
            connection,
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user",
        )
        owned = "SELECT relname FROM pg_class WHERE relowner = current_user::regrole"
        assert roles == [(False, False)]
        assert await rows_of(connection, owned) == []


async def test_functions_that_see_every_tenant_are_the_services_alone(
    ledger: RunningLedger,
) -> None:
    executable = """
        SELECT p.oid::regprocedure::text, has_function_privilege(:role, p.oid, 'EXECUTE')
        FROM pg_proc p WHERE p.prosecdef AND p.pronamespace = 'public'::regnamespace
    """
    with pytest.raises(DBAPIError) as rejected:
        async with as_owner(ledger) as connection:
            await connection.execute(text("CREATE ROLE stranger"))
            of_stranger = dict(await rows_of(connection, executable, role="stranger"))
            of_service = dict(await rows_of(connection, executable, role="cost_ledger_service"))
            assert {"tenants_behind()", "heads_to_anchor()"} <= set(of_stranger)
            assert not any(of_stranger.values()), of_stranger
            assert all(of_service.values()), of_service
            await connection.execute(text("SET LOCAL ROLE stranger"))
            # Fails, which also takes the role back.
            await connection.execute(text("SELECT * FROM tenants_behind()"))
    assert "permission denied for function tenants_behind" in str(rejected.value)

from datetime import UTC, datetime
from itertools import combinations

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from cost_ledger.errors import JournalRejected
from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
)
from integration.cost_ledger.running_ledger import (
    RunningLedger,
    as_owner,
    as_service,
    as_tenants,
    code_of,
    rows_of,
)
from podium.ledger.v1 import audit_service_pb2 as audit_pb
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Scope


async def test_a_tenant_admin_cannot_write_the_journal(ledger: RunningLedger) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    for call in (
        admin.ledger.Reserve(make_reserve()),
        admin.ledger.Capture(make_capture("k")),
        admin.ledger.Release(pb.ReleaseRequest(key="k")),
        admin.ledger.Record(make_record()),
        admin.ledger.Apply(pb.ApplyRequest()),
        admin.ledger.ReleaseEpisode(pb.ReleaseEpisodeRequest(episode_id="e")),
    ):
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED


async def test_spending_is_read_with_its_scope(ledger: RunningLedger) -> None:
    runner = ledger.as_("acme", Scope.EPISODES_RUN)
    for call in (
        runner.ledger.ListEntries(pb.ListEntriesRequest()),
        runner.ledger.ReportSpend(pb.ReportSpendRequest()),
    ):
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED


async def test_only_the_platform_sets_list_prices(ledger: RunningLedger) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    listed = prices_pb.CreatePricesRequest(specs=[make_price("tool/a")])
    own = prices_pb.CreatePricesRequest(specs=[make_price("own/a")])
    assert await code_of(admin.prices.CreatePrices(listed)) is grpc.StatusCode.PERMISSION_DENIED
    assert (await admin.prices.CreatePrices(own)).created_count == 1
    runner = ledger.as_("acme", Scope.EPISODES_RUN)
    assert await code_of(runner.prices.CreatePrices(own)) is grpc.StatusCode.PERMISSION_DENIED


async def test_the_same_key_of_two_tenants_is_two_keys(ledger: RunningLedger) -> None:
    acme, zeta = ledger.as_("acme"), ledger.as_("zeta")
    await acme.ledger.Reserve(make_reserve("k", subject={"episode_id": "canary"}))
    assert await code_of(zeta.ledger.Capture(make_capture("k"))) is grpc.StatusCode.NOT_FOUND
    await zeta.ledger.Reserve(make_reserve("k", sku="", unknown_price=3))
    assert (await acme.ledger.Capture(make_capture("k"))).entry.sequence == 2


async def test_no_answer_to_one_tenant_holds_a_byte_of_another(ledger: RunningLedger) -> None:
    acme = ledger.as_("acme", Scope.TENANT_ADMIN, Scope.LEDGER_WRITE, subject="canary")
    zeta = ledger.as_("zeta", Scope.TENANT_ADMIN, Scope.LEDGER_WRITE)
    budget = make_budget("canary")
    await acme.budgets.CreateBudget(budgets_pb.CreateBudgetRequest(budget=budget))
    own = make_price("own/canary", source="canary")
    await acme.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[own]))
    subject = {"episode_id": "canary", "tool": "canary", "model": "canary"}
    await acme.ledger.Reserve(make_reserve("canary", subject=subject, sku="own/canary"))
    await acme.ledger.Capture(make_capture("canary"))
    groups = [pb.SPEND_DIMENSION_MODEL, pb.SPEND_DIMENSION_TOOL, pb.SPEND_DIMENSION_USER]
    answers = [
        await zeta.ledger.ListEntries(pb.ListEntriesRequest()),
        await zeta.ledger.ListEntries(pb.ListEntriesRequest(episode_id="canary")),
        await zeta.ledger.ReportSpend(pb.ReportSpendRequest(group_by=groups)),
        await zeta.ledger.ReleaseEpisode(pb.ReleaseEpisodeRequest(episode_id="canary")),
        await zeta.budgets.ListBudgets(budgets_pb.ListBudgetsRequest()),
        await zeta.prices.ListPrices(prices_pb.ListPricesRequest()),
        await zeta.prices.GetEffectivePrices(
            prices_pb.GetEffectivePricesRequest(skus=["own/canary"])
        ),
    ]
    assert all(b"canary" not in answer.SerializeToString() for answer in answers)
    foreign = zeta.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="canary"))
    assert await code_of(foreign) is grpc.StatusCode.NOT_FOUND
    closing = zeta.budgets.CloseBudget(budgets_pb.CloseBudgetRequest(id="canary"))
    assert await code_of(closing) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("tenant", ["a\x1fb", "a\nb"])
async def test_a_name_that_no_tenant_can_have_is_rejected(
    ledger: RunningLedger, tenant: str
) -> None:
    admin = ledger.as_("acme", Scope.PLATFORM_ADMIN)
    for call in (
        admin.budgets.ListBudgets(budgets_pb.ListBudgetsRequest(tenant=tenant)),
        admin.audit.ExplainEntry(audit_pb.ExplainEntryRequest(entry="1", tenant=tenant)),
        admin.prices.DeletePrices(prices_pb.DeletePricesRequest(ids=["1"], tenant=tenant)),
    ):
        assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT


CANARY = "canary-of-beta"
TENANT_TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE a.attname = 'tenant' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relnamespace = 'public'::regnamespace
"""


async def fill(ledger: RunningLedger) -> None:
    for tenant, name in (("acme", "plain"), ("beta", CANARY)):
        worker = ledger.as_(tenant)
        await ledger.as_(tenant, Scope.TENANT_ADMIN).add_budget(f"cap-{name}")
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


NAMES = ["", "a", "aa", "a,a", "{a}", 'a"', "a'", "a%", "ä"]


async def test_a_scope_has_its_tenants_and_no_others(ledger: RunningLedger) -> None:
    scopes = [*combinations(NAMES, 0), *combinations(NAMES, 1), *combinations(NAMES, 2)]
    async with as_tenants(ledger) as connection:
        for scope in scopes:
            await rows_of(connection, "SELECT set_scope(:scope, true)", scope=list(scope))
            seen = await rows_of(
                connection,
                "SELECT n FROM unnest(CAST(:n AS text[])) n WHERE is_in_scope(n)",
                n=NAMES,
            )
            assert [name for (name,) in seen] == list(scope)
            ((listed,),) = await rows_of(connection, "SELECT tenants_in_scope()")
            assert (listed or []) == list(scope)


async def test_a_name_that_would_open_the_rows_of_others_is_rejected(ledger: RunningLedger) -> None:
    with pytest.raises(JournalRejected):
        async with as_tenants(ledger, "a\x1facme\x1fb"):
            pass


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET reason = 'x'",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "DELETE FROM idempotency",
        "DELETE FROM hold",
        "UPDATE hold SET reserve_hash = 'x'",
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

from typing import Any

import grpc
import pytest

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
)
from integration.cost_ledger.running_ledger import RunningLedger
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    return rejected.value.code()


async def test_a_tenant_admin_cannot_write_the_journal(ledger: RunningLedger) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    for call in (
        admin.ledger.Reserve(make_reserve()),
        admin.ledger.Capture(make_capture("k")),
        admin.ledger.Release(pb.ReleaseRequest(key="k")),
        admin.ledger.Record(make_record()),
        admin.ledger.Reverse(pb.ReverseRequest(key="k", sequence=1, reason="x")),
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

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from embedded_servers import Database
from integration.tool_adapters.tool_specs import calculator_spec
from integration.tools_platform.running_platform import ToolsPlatform, running_platform
from integration.tools_platform.test_corpus_costs import COSTS, _limit
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2, usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.registry.v1 import guardrail_pb2, policy_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium_kit.rpc.identity import Scope
from servers.guardrail_server import GuardrailServer, running_guardrail_server

SKU = "guardrails/flowers"
PRICE = Decimal("0.0007")


@pytest_asyncio.fixture
async def guard() -> AsyncIterator[GuardrailServer]:
    async with running_guardrail_server() as server:
        yield server


@pytest_asyncio.fixture
async def platform(database: Database, tmp_path: Path) -> AsyncIterator[ToolsPlatform]:
    hosts = frozenset({"127.0.0.1"})
    async with running_platform(database, tmp_path, allowed_hosts=hosts) as running:
        admin = await running.admin()
        component = prices_pb.PriceComponent(
            dimension=usage_pb2.USAGE_DIMENSION_CALL, unit_price=str(PRICE)
        )
        price = prices_pb.PriceSpec(sku=SKU, currency_code="USD", components=[component])
        await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
        request = registry_pb.RegisterToolRequest(spec=calculator_spec(), shared=True)
        await admin.registry.RegisterTool(request)
        yield running


async def called(
    platform: ToolsPlatform, guard: GuardrailServer, key: str, **fields: Any
) -> pb.InvokeResponse:
    http = guardrail_pb2.HttpGuard(url=guard.url, sku=SKU, timeout=Duration(seconds=10), **fields)
    guardrail = policy_pb2.Guardrail(
        name="flowers", action=guardrail_pb2.GUARDRAIL_ACTION_BLOCK, http=http
    )
    request = pb.InvokeRequest(
        key=f"{key}/0/tool/0",
        episode_id=key,
        tool_name="calculator",
        tool_version=1,
        arguments_json='{"expression": "6 * 7"}',
        guardrails=[guardrail],
    )
    response: pb.InvokeResponse = await (await platform.tenant()).adapters.Invoke(request)
    return response


async def entries(platform: ToolsPlatform, count: int) -> list[hold_pb2.Entry]:
    tenant = await platform.as_("acme", Scope.SPEND_READ)
    async with asyncio.timeout(60):
        while True:
            reply = await tenant.ledger.ListEntries(ledger_pb.ListEntriesRequest(kinds=COSTS))
            if len(reply.entries) >= count:
                return list(reply.entries)
            await asyncio.sleep(0.05)


async def test_each_question_is_charged_once_whatever_it_came_to(
    platform: ToolsPlatform, guard: GuardrailServer
) -> None:
    answers = [await called(platform, guard, f"e{n}") for n in range(3)]
    guard.status = 500
    answers.append(await called(platform, guard, "e3"))
    assert len(guard.asked) == 3 * 2 + 1
    posted = await entries(platform, len(guard.asked))
    assert sum(Decimal(each.amount.amount) for each in posted) == PRICE * len(guard.asked)
    assert {each.subject.tool for each in posted} == {"guardrail flowers"}
    named = {each.ledger_key for answer in answers for each in answer.guardrails}
    assert named == {each.key for each in posted}


@pytest.mark.parametrize("on_error", ["BLOCK", "ALLOW"])
async def test_a_question_that_no_budget_covers_is_not_asked(
    platform: ToolsPlatform, guard: GuardrailServer, on_error: str
) -> None:
    await _limit(platform, "0.0006")
    rule = guardrail_pb2.GuardrailErrorRule.Value(f"GUARDRAIL_ERROR_RULE_{on_error}")
    answer = await called(platform, guard, "e", on_error=rule)
    assert not guard.asked
    if on_error == "ALLOW":
        assert answer.output.content == "42"
    else:
        assert answer.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
        assert "is not paid for" in answer.failure.message

import json
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from builders.smallest_instance import smallest_instance
from integration.tools_platform.running_platform import Caller, ToolsPlatform
from integration.tools_platform.tau2 import AIRLINE, MOCK, RETAIL, Action, Domain, database
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import failure_pb2, usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from process_owner import command_line, descendants

PRICE = Decimal("0.001")
ACTIONS = 24
SKU = "tool/tau2"
Tools = dict[str, toolset_pb2.ResolvedTool]


async def set_price(platform: ToolsPlatform) -> None:
    admin = await platform.admin()
    component = prices_pb.PriceComponent(
        dimension=usage_pb2.USAGE_DIMENSION_CALL, unit_price=str(PRICE), per="1"
    )
    price = prices_pb.PriceSpec(sku=SKU, currency_code="USD", components=[component])
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))


async def import_domain(platform: ToolsPlatform, domain: Domain) -> dict[str, tool_pb2.Tool]:
    admin = await platform.admin()
    servers = platform.adapters_settings.mcp_servers_folder
    assert servers is not None
    connection = tool_pb2.McpConnection(stdio=domain.define(servers))
    found = await admin.adapters.DiscoverMcpTools(
        adapters_pb.DiscoverMcpToolsRequest(connection=connection, name_prefix=f"{domain.name}_")
    )
    tools = {}
    for spec in found.specs:
        spec.sku = SKU
        request = registry_pb.RegisterToolRequest(spec=spec, shared=True)
        tools[spec.connection.mcp.tool_name] = (await admin.registry.RegisterTool(request)).tool
    return tools


async def resolved(tenant: Caller) -> Tools:
    reply = await tenant.registry.ResolveToolset(registry_pb.ResolveToolsetRequest())
    return {tool.name: tool for tool in reply.toolset.tools}


async def charged_call(
    tenant: Caller, tool: toolset_pb2.ResolvedTool, key: str, arguments: dict[str, Any]
) -> adapters_pb.InvokeResponse:
    """One call as the episode worker makes it: held, made, captured."""
    episode = key.partition("/")[0]
    held = await tenant.ledger.Reserve(
        ledger_pb.ReserveRequest(
            key=key,
            subject=hold_pb2.Subject(episode_id=episode, turn=1, tool=tool.name),
            sku=tool.sku,
            worst_case=[usage_pb2.Quantity(dimension=usage_pb2.USAGE_DIMENSION_CALL, amount="1")],
        )
    )
    assert held.HasField("hold"), held.rejection.message
    answer: adapters_pb.InvokeResponse = await tenant.adapters.Invoke(
        adapters_pb.InvokeRequest(
            key=key,
            episode_id=episode,
            tool_name=tool.name,
            tool_version=tool.version,
            arguments_json=json.dumps(arguments),
        )
    )
    await tenant.ledger.Capture(ledger_pb.CaptureRequest(key=key, usage=answer.usage))
    return answer


def session_database(domain: Domain) -> dict[str, Any]:
    of_domain = [each for each in descendants() if domain.program in command_line(each)]
    (server,) = [each for each in of_domain if each.name() != "bwrap"]
    return database(Path("/proc", str(server.pid), "cwd"))


@dataclass(frozen=True)
class Replay:
    rejected: list[int]
    database: dict[str, Any]


async def replayed_alone(domain: Domain, actions: list[Action]) -> Replay:
    with TemporaryDirectory(prefix="tau2-") as folder:
        async with domain.client(Path(folder)) as client:
            results = [await client.call_tool(each.tool, each.arguments) for each in actions]
        rejected = [number for number, result in enumerate(results) if result.is_error]
        return Replay(rejected, database(Path(folder)))


async def replayed_through(
    platform: ToolsPlatform, domain: Domain, tools: Tools, episode: str, actions: list[Action]
) -> Replay:
    tenant, rejected = await platform.tenant(), []
    for number, action in enumerate(actions):
        key = f"{episode}/{number + 1}/tool/0"
        answer = await charged_call(tenant, tools[action.tool], key, action.arguments)
        assert answer.attempts == 1
        if answer.HasField("failure"):
            rejected.append(number)
    after = session_database(domain)
    await tenant.adapters.CloseEpisode(adapters_pb.CloseEpisodeRequest(episode_id=episode))
    return Replay(rejected, after)


# Every task of one domain; of another, whose server loads megabytes for each, the first.
@pytest.mark.parametrize(("domain", "tasks_max"), [(MOCK, None), (RETAIL, 2)])
async def test_golden_actions_leave_the_database_the_server_alone_leaves(
    platform: ToolsPlatform, domain: Domain, tasks_max: int | None
) -> None:
    tools = await priced_tools(platform, domain)
    recorded = dict(islice(domain.golden_actions().items(), tasks_max))
    for task, actions in recorded.items():
        episode = f"{domain.name}-{task}"
        through = await replayed_through(platform, domain, tools, episode, actions)
        assert through == await replayed_alone(domain, actions)
    assert await spent(platform) == PRICE * sum(map(len, recorded.values()))


async def test_many_actions_of_a_large_domain_one_after_the_other_leave_the_same_database(
    platform: ToolsPlatform,
) -> None:
    tools = await priced_tools(platform, AIRLINE)
    recorded = (each for task in AIRLINE.golden_actions().values() for each in task)
    actions = list(islice(recorded, ACTIONS))
    through = await replayed_through(platform, AIRLINE, tools, "airline", actions)
    assert through == await replayed_alone(AIRLINE, actions)
    # An earlier task took what a later one wants, at times; that it is rejected is right too.
    assert len(through.rejected) < len(actions) / 4
    assert await spent(platform) == PRICE * len(actions)


async def priced_tools(platform: ToolsPlatform, domain: Domain) -> Tools:
    await set_price(platform)
    imported = await import_domain(platform, domain)
    allowed = await resolved(await platform.tenant())
    return {name: allowed[tool.spec.name] for name, tool in imported.items()}


async def spent(platform: ToolsPlatform) -> Decimal:
    tenant = await platform.tenant()
    report = await tenant.ledger.ReportSpend(ledger_pb.ReportSpendRequest())
    (amount,) = report.rows[0].amounts
    return Decimal(amount.amount)


@pytest.mark.parametrize("domain", [MOCK, AIRLINE, RETAIL], ids=lambda domain: domain.name)
async def test_every_tool_of_a_domain_is_registered_allowed_and_answers(
    platform: ToolsPlatform, domain: Domain
) -> None:
    await set_price(platform)
    imported = await import_domain(platform, domain)
    tenant = await platform.tenant()
    tools = await resolved(tenant)
    assert tools.keys() == {tool.spec.name for tool in imported.values()}
    recorded = {
        action.tool: action.arguments
        for actions in domain.golden_actions().values()
        for action in actions
    }
    for number, (name, tool) in enumerate(imported.items()):
        smallest = smallest_instance(json.loads(tool.spec.parameters_json_schema))
        asked = recorded.get(name) or smallest
        key = f"{domain.name}/{number}/tool/0"
        answer = await charged_call(tenant, tools[tool.spec.name], key, asked)
        # The server answers, if only that it knows no such reservation.
        allowed = {failure_pb2.FAILURE_KIND_UNSPECIFIED, failure_pb2.FAILURE_KIND_TOOL_ERROR}
        assert answer.failure.kind in allowed, (name, answer.failure.message)
        assert answer.attempts == 1

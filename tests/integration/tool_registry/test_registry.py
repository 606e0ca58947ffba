"""Tools, versions, tenants and toolsets through the registry's RPCs."""

import asyncio
import json

import grpc
import pytest

from integration.tool_registry.conftest import RegistryUnderTest
from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as price_pb
from podium.registry.v1 import policy_pb2, policy_service_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from rpckit.identity import Scope


def function_tool(name: str = "calculator", **changes: object) -> tool_pb2.ToolSpec:
    spec = tool_pb2.ToolSpec(
        name=name,
        kind=tool_pb2.TOOL_KIND_FUNCTION,
        description=f"does {name}",
        parameters_json_schema='{"type": "object", "properties": {"x": {"type": "string"}}}',
        connection=tool_pb2.Connection(function=tool_pb2.FunctionConnection(function=name)),
        sku=f"tool/{name}",
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
    )
    for key, value in changes.items():
        setattr(spec, key, value)
    return spec


def llm_tool(*aliases: str) -> tool_pb2.ToolSpec:
    models = [
        tool_pb2.LlmModel(alias=a, model=a, base_url="http://m/v1", sku=f"model/{a}")
        for a in aliases
    ]
    spec = function_tool("ask_llm", kind=tool_pb2.TOOL_KIND_LLM)
    spec.connection.llm.CopyFrom(tool_pb2.LlmConnection(models=models, max_output_tokens=100))
    return spec


def price(sku: str, amount: str) -> price_pb.PriceSpec:
    component = price_pb.PriceComponent(dimension=usage_pb2.USAGE_DIMENSION_CALL, unit_price=amount)
    return price_pb.PriceSpec(sku=sku, currency_code="USD", components=[component])


async def test_same_spec_keeps_its_version_and_a_new_one_gets_the_next(
    registry: RegistryUnderTest,
) -> None:
    changed = function_tool(description="better")
    async with registry.tools() as tools:
        replies = [
            await tools.RegisterTool(pb.RegisterToolRequest(spec=spec))
            for spec in (function_tool(), function_tool(), changed, function_tool())
        ]
    assert [(reply.tool.version, reply.created) for reply in replies] == [
        (1, True),
        (1, False),
        (2, True),
        (1, False),
    ]


async def test_concurrent_registrations_get_different_versions(
    registry: RegistryUnderTest,
) -> None:
    specs = [function_tool(description=f"take {number}") for number in range(12)]
    async with registry.tools() as tools:
        replies = await asyncio.gather(
            *(tools.RegisterTool(pb.RegisterToolRequest(spec=spec)) for spec in specs)
        )
    assert sorted(reply.tool.version for reply in replies) == list(range(1, 13))


async def test_dry_run_stores_nothing(registry: RegistryUnderTest) -> None:
    request = pb.RegisterToolRequest(spec=function_tool(), validate_only=True)
    async with registry.tools() as tools:
        assert (await tools.RegisterTool(request)).created
        assert not (await tools.ListTools(pb.ListToolsRequest())).tools


async def test_tool_of_a_tenant_is_unknown_to_another(registry: RegistryUnderTest) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
    async with registry.tools(tenant="rival") as rival:
        assert not (await rival.ListTools(pb.ListToolsRequest())).tools
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rival.GetTool(pb.GetToolRequest(name="calculator"))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def test_shared_tool_is_seen_by_all_and_its_name_is_taken(
    registry: RegistryUnderTest,
) -> None:
    async with registry.tools("platform", Scope.PLATFORM_ADMIN) as admin:
        await admin.RegisterTool(pb.RegisterToolRequest(spec=function_tool(), shared=True))
    async with registry.tools() as tools:
        assert (await tools.GetTool(pb.GetToolRequest(name="calculator"))).tool.shared
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
    assert refused.value.code() == grpc.StatusCode.ALREADY_EXISTS


async def test_tenant_admin_cannot_register_for_everyone(registry: RegistryUnderTest) -> None:
    async with registry.tools() as tools:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool(), shared=True))
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (function_tool(name="Bad Name"), "must start with a letter"),
        (function_tool(kind=tool_pb2.TOOL_KIND_UNSPECIFIED), "kind is unset"),
        (function_tool(side_effect=tool_pb2.SIDE_EFFECT_UNSPECIFIED), "side_effect is unset"),
        (function_tool(kind=tool_pb2.TOOL_KIND_HTTP), "the connection is function"),
        (function_tool(description=" "), "no description"),
        (function_tool(parameters_json_schema="{"), "not JSON"),
        (llm_tool(), "names no model"),
        (llm_tool("a", "a"), "different, non-empty aliases"),
    ],
)
async def test_wrong_spec_names_what_to_change(
    registry: RegistryUnderTest, spec: tool_pb2.ToolSpec, complaint: str
) -> None:
    async with registry.tools() as tools:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await tools.RegisterTool(pb.RegisterToolRequest(spec=spec))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert complaint in (refused.value.details() or "")


async def test_deprecated_tool_leaves_new_toolsets_but_keeps_its_versions(
    registry: RegistryUnderTest,
) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
        await tools.DeprecateTool(pb.DeprecateToolRequest(name="calculator"))
        assert not (await tools.ResolveToolset(pb.ResolveToolsetRequest())).toolset.tools
        kept = await tools.GetTool(pb.GetToolRequest(name="calculator", version=1))
    assert kept.tool.HasField("deprecate_time")


async def test_toolset_shows_price_and_measured_latency(registry: RegistryUnderTest) -> None:
    registry.prices["tool/calculator"] = price("tool/calculator", "0.000001")
    async with registry.tools("platform", Scope.PLATFORM_ADMIN) as admin:
        await admin.RegisterTool(pb.RegisterToolRequest(spec=function_tool(), shared=True))
        facts = tool_pb2.ToolFacts(tool_name="calculator", sample_count=9, success_rate=1)
        facts.latency_p50.FromMilliseconds(200)
        facts.latency_p95.FromMilliseconds(900)
        await admin.RecordToolFacts(pb.RecordToolFactsRequest(reporter="a-1", facts=[facts]))
    async with registry.tools() as tools:
        reply = await tools.ResolveToolset(pb.ResolveToolsetRequest())
    [tool] = reply.toolset.tools
    assert "0.000001 USD per call; latency under 0.2 s, p95 under 1 s" in tool.description
    assert tool.price_per_call.amount == "0.000001"


async def test_unknown_price_is_said_and_refused_by_cost_first(
    registry: RegistryUnderTest,
) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
        balanced = await tools.ResolveToolset(pb.ResolveToolsetRequest(policy="balanced"))
        cost_first = await tools.ResolveToolset(pb.ResolveToolsetRequest(policy="cost-first"))
    assert "price unknown" in balanced.toolset.tools[0].description
    assert not balanced.toolset.tools[0].HasField("price_per_call")
    assert not cost_first.toolset.tools
    assert "price is unknown" in cost_first.decisions[0].reason


async def test_models_of_an_llm_tool_are_an_enum(registry: RegistryUnderTest) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=llm_tool("small", "large")))
        reply = await tools.ResolveToolset(pb.ResolveToolsetRequest())
    [tool] = reply.toolset.tools
    assert json.loads(tool.parameters_json_schema)["properties"]["model"]["enum"] == [
        "small",
        "large",
    ]
    assert dict(tool.model_skus) == {"small": "model/small", "large": "model/large"}


async def test_same_toolset_has_the_same_digest(registry: RegistryUnderTest) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
        first = await tools.ResolveToolset(pb.ResolveToolsetRequest())
        second = await tools.ResolveToolset(pb.ResolveToolsetRequest())
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool("search")))
        third = await tools.ResolveToolset(pb.ResolveToolsetRequest())
    assert first.toolset.digest == second.toolset.digest != third.toolset.digest


async def test_wanted_tool_that_is_refused_or_unknown_is_an_error(
    registry: RegistryUnderTest,
) -> None:
    async with registry.tools() as tools:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
        for names, policy, complaint in (
            (["teleport"], "", "no tool teleport"),
            (["calculator"], "cost-first", "is not allowed"),
        ):
            request = pb.ResolveToolsetRequest(tool_names=names, policy=policy)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await tools.ResolveToolset(request)
            assert complaint in (refused.value.details() or "")


async def test_active_policy_applies_and_explains_itself(registry: RegistryUnderTest) -> None:
    deny = policy_pb2.ToolSelector(names=["calculator"])
    spec = policy_pb2.PolicySpec(
        name="no-sums", preset=policy_pb2.POLICY_PRESET_SPEED_FIRST, deny=deny
    )
    async with registry.tools() as tools, registry.policies() as policies:
        await tools.RegisterTool(pb.RegisterToolRequest(spec=function_tool()))
        await policies.CreatePolicy(policy_service_pb2.CreatePolicyRequest(spec=spec))
        await policies.ActivatePolicy(policy_service_pb2.ActivatePolicyRequest(name="no-sums"))
        toolset = (await tools.ResolveToolset(pb.ResolveToolsetRequest())).toolset
        why = await policies.ExplainToolset(policy_service_pb2.ExplainToolsetRequest())
    assert (toolset.policy_name, toolset.policy_version) == ("no-sums", 1)
    assert toolset.preferences.latency == pytest.approx(0.8)
    assert [decision.reason for decision in why.decisions] == ["the policy denies it"]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (policy_pb2.PolicySpec(name="No"), "must start with a letter"),
        (
            policy_pb2.PolicySpec(name="p", preferences=policy_pb2.PreferenceVector(compute=2)),
            "weights are in [0, 1]",
        ),
        (
            policy_pb2.PolicySpec(
                name="p", price_ceiling=money_pb2.Money(currency_code="USD", amount="free")
            ),
            "not a decimal",
        ),
        (
            policy_pb2.PolicySpec(
                name="p", unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING
            ),
            "there is no ceiling",
        ),
    ],
)
async def test_wrong_policy_names_what_to_change(
    registry: RegistryUnderTest, spec: policy_pb2.PolicySpec, complaint: str
) -> None:
    async with registry.policies() as policies:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await policies.CreatePolicy(policy_service_pb2.CreatePolicyRequest(spec=spec))
    assert complaint in (refused.value.details() or "")

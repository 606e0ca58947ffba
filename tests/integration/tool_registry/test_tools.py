import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import grpc
import pytest

from integration.tool_registry.builders import (
    make_llm_spec,
    make_model,
    make_podium_spec,
    make_spec,
)
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope
from tool_registry.tools import listing

DAY = timedelta(days=1)


async def test_the_same_spec_again_returns_the_version_it_has(registry: RunningRegistry) -> None:
    ada = registry.as_()
    first, second = await ada.register(make_spec()), await ada.register(make_spec())
    assert (first.created, second.created) == (True, False)
    assert first.tool == second.tool
    assert first.tool.version == 1


async def test_another_spec_is_the_next_version_and_the_old_one_stays(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_spec(description="Evaluates arithmetic exactly."))
    assert (await ada.get("calculator")).version == 2
    assert (await ada.get("calculator", 1)).spec.description == "Evaluates arithmetic."


async def test_an_old_spec_registered_again_is_the_newest_again(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_spec(description="Wrong."))
    again = await ada.register(make_spec())
    assert (again.created, again.tool.version) == (False, 1)
    assert (await ada.get("calculator")).version == 1
    assert [tool.version for tool in (await ada.resolve()).toolset.tools] == [1]
    # Running episodes keep what they have.
    assert (await ada.get("calculator", 2)).spec.description == "Wrong."


async def test_concurrent_registrations_get_versions_without_gaps_or_twins(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    specs = [make_spec(description=f"Variant {number % 8}.") for number in range(24)]
    replies = await asyncio.gather(*(ada.register(spec) for spec in specs))
    versions = {reply.tool.spec.description: reply.tool.version for reply in replies}
    assert sorted(versions.values()) == list(range(1, 9))
    assert sum(reply.created for reply in replies) == 8


async def test_a_tenant_and_the_platform_never_both_get_a_name(registry: RunningRegistry) -> None:
    outcomes = await asyncio.gather(
        registry.as_("acme").register(make_spec()),
        registry.platform().register(make_spec(), shared=True),
        registry.as_("globex").register(make_spec(description="Ours.")),
        return_exceptions=True,
    )
    shared = not isinstance(outcomes[1], BaseException)
    own = [
        outcome
        for outcome in (outcomes[0], outcomes[2])
        if isinstance(outcome, pb.RegisterToolResponse)
    ]
    assert shared != bool(own)


async def test_a_tenant_cannot_take_the_name_of_a_shared_tool(registry: RunningRegistry) -> None:
    await registry.platform().register(make_spec(), shared=True)
    error = await rejected(registry.as_().register(make_spec()))
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS
    assert "calculator is a tool of the platform" in str(error.details())


async def test_a_shared_tool_cannot_hide_a_tenants(registry: RunningRegistry) -> None:
    await registry.as_().register(make_spec())
    error = await rejected(registry.platform().register(make_spec(), shared=True))
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS


async def test_a_tenants_tool_is_its_own(registry: RunningRegistry) -> None:
    acme, globex = registry.as_("acme"), registry.as_("globex")
    await acme.register(make_spec("secret_tool"))
    await registry.platform().register(make_spec("weather"), shared=True)
    assert await acme.names() == ["secret_tool", "weather"]
    assert await globex.names() == ["weather"]
    for call in (globex.get("secret_tool"), globex.deprecate("secret_tool")):
        assert (await rejected(call)).code() == grpc.StatusCode.NOT_FOUND
    assert [tool.name for tool in (await globex.resolve()).toolset.tools] == ["weather"]


async def test_two_tenants_may_use_one_name(registry: RunningRegistry) -> None:
    await registry.as_("acme").register(make_spec(description="Acme's."))
    await registry.as_("globex").register(make_spec(description="Globex's."))
    assert (await registry.as_("acme").get("calculator")).spec.description == "Acme's."
    assert (await registry.as_("globex").get("calculator")).spec.description == "Globex's."


async def test_validate_only_answers_as_if_and_stores_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    reply = await ada.register(make_spec(), validate_only=True)
    assert (reply.created, reply.tool.version) == (True, 1)
    assert await ada.names() == []
    assert (await ada.register(make_spec())).tool.version == 1


async def test_a_deprecated_version_gives_way_to_the_one_before(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_spec(description="Wrong."))
    assert await ada.deprecate("calculator", 2) == [2]
    assert [tool.version for tool in (await ada.resolve()).toolset.tools] == [1]
    assert (await ada.get("calculator", 2)).HasField("deprecate_time")


async def test_a_deprecated_tool_leaves_toolsets_but_running_episodes_keep_it(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    first = await ada.deprecate("calculator")
    assert first == await ada.deprecate("calculator") == [1]
    assert not (await ada.resolve()).toolset.tools
    assert (await rejected(ada.get("calculator"))).code() == grpc.StatusCode.NOT_FOUND
    assert (await ada.get("calculator", 1)).version == 1
    assert await ada.names() == []
    assert await ada.names(include_deprecated=True) == ["calculator"]


async def test_registering_a_deprecated_spec_brings_it_back(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.deprecate("calculator")
    reply = await ada.register(make_spec())
    assert (reply.tool.version, reply.tool.HasField("deprecate_time")) == (1, False)
    assert await ada.names() == ["calculator"]


async def test_pages_list_every_tool_once_in_name_order(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for number in (3, 0, 4, 1, 2):
        await ada.register(make_spec(f"tool-{number}"))
    found, token = [], ""
    while True:
        request = pb.ListToolsRequest(page_size=2, page_token=token)
        page = await ada.tools.ListTools(request)
        found += [tool.spec.name for tool in page.tools]
        token = page.next_page_token
        if not token:
            break
        await ada.register(make_spec(f"a-new-{len(found)}"))
    assert found == [f"tool-{number}" for number in range(5)]


async def test_filters_keep_what_matches_all_of_them(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("local", tags=["on-premise", "maths"]))
    await ada.register(make_spec("remote", tags=["maths"], description="Solves equations."))
    await ada.register(make_llm_spec(make_model("a")))
    assert await ada.names(kinds=[tool_pb2.TOOL_KIND_LLM]) == ["answer"]
    assert await ada.names(tags=["maths", "on-premise"]) == ["local"]
    assert await ada.names(query="SOLVES equations") == ["remote"]


async def test_versions_are_listed_newest_first(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for number in range(12):
        await ada.register(make_spec(description=f"Variant {number}."))
    listed, token = [], ""
    while True:
        request = pb.ListToolVersionsRequest(name="calculator", page_size=5, page_token=token)
        page = await ada.tools.ListToolVersions(request)
        listed += [tool.version for tool in page.tools]
        token = page.next_page_token
        if not token:
            break
    assert listed == list(range(12, 0, -1))


async def test_writing_needs_the_scope(registry: RunningRegistry) -> None:
    runner, admin = registry.as_("acme", Scope.EPISODES_RUN), registry.as_("acme")
    await registry.platform().register(make_spec("weather"), shared=True)
    for call in (
        runner.register(make_spec()),
        admin.register(make_spec(), shared=True),
        admin.deprecate("weather"),
        runner.create_policy(),
    ):
        assert (await rejected(call)).code() == grpc.StatusCode.PERMISSION_DENIED
    assert await runner.names() == ["weather"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (make_spec("Bad Name"), "name is 'Bad Name'"),
        (make_spec(description=" "), "no description"),
        (make_spec(kind=tool_pb2.TOOL_KIND_UNSPECIFIED), "kind is unset"),
        (make_spec(side_effect=tool_pb2.SIDE_EFFECT_UNSPECIFIED), "side_effect is unset"),
        (make_spec(kind=tool_pb2.TOOL_KIND_CODE), "kind is code but the connection is function"),
        (make_llm_spec(), "models is empty"),
        (make_llm_spec(make_model("a"), make_model("a")), "different, non-empty aliases"),
        (make_llm_spec(make_model("a"), sku="llm/all"), "sku is set"),
        (make_llm_spec(make_model("a", base_url="ftp://host")), "models[0].base_url"),
        (make_llm_spec(make_model("a", base_url="http://u:p@host/v1")), "holds credentials"),
        (make_llm_spec(make_model("a", api=tool_pb2.LLM_API_UNSPECIFIED)), "models[0].api"),
        (make_llm_spec(make_model("a", modelled_latency=DAY)), "give 0 to 3600 s"),
        (make_llm_spec(make_model("a", modelled_latency=-DAY)), "give 0 to 3600 s"),
    ],
)
async def test_a_spec_that_cannot_work_is_rejected_with_its_cause(
    registry: RunningRegistry, spec: tool_pb2.ToolSpec, words: str
) -> None:
    error = await rejected(registry.as_().register(spec))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(error.details())


async def test_a_schemas_fault_is_named_by_its_path(registry: RunningRegistry) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "strin"}}}
    error = await rejected(registry.as_().register(make_spec(schema=schema)))
    assert "parameters_json_schema at $.properties.city.type" in str(error.details())
    assert await registry.as_().names(include_deprecated=True) == []


async def test_a_written_out_choice_of_models_must_be_the_aliases(
    registry: RunningRegistry,
) -> None:
    schema = {"type": "object", "properties": {"model": {"type": "string", "enum": ["z"]}}}
    spec = make_llm_spec(make_model("a"), make_model("b"), schema=schema)
    error = await rejected(registry.as_().register(spec))
    assert "$.properties.model" in str(error.details())


async def test_an_episode_is_told_which_tools_give_its_answer(registry: RunningRegistry) -> None:
    ada = registry.as_()
    spec = make_llm_spec(make_model("answer-1"), name="answer")
    spec.gives_answer = True
    await ada.register(spec)
    await ada.register(make_spec("calculator"))
    tools = {tool.name: tool.gives_answer for tool in (await ada.resolve()).toolset.tools}
    assert tools == {"answer": True, "calculator": False}


async def test_an_embedder_gives_none(registry: RunningRegistry) -> None:
    spec = make_llm_spec(make_model("vectors", api=tool_pb2.LLM_API_OPENAI_EMBEDDINGS))
    spec.connection.llm.role = tool_pb2.LLM_ROLE_EMBEDDER
    spec.gives_answer = True
    error = await rejected(registry.as_().register(spec))
    assert "gives_answer is set" in (error.details() or "")


REJECT = policy_pb2.UNKNOWN_PRICE_RULE_REJECT


async def test_an_orchestrator_has_no_price_of_its_own_and_is_not_unpriced(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_podium_spec(max_depth=3, policy="frugal", tool_names=["search"]))
    await ada.create_policy(unknown_price=REJECT)
    [tool] = (await ada.resolve("mine")).toolset.tools
    assert tool.terms.startswith("priced by what it calls,")
    assert (tool.podium.model, tool.podium.policy, tool.podium.max_depth) == ("small", "frugal", 3)
    assert list(tool.podium.tool_names) == ["search"]


async def test_a_policy_keeps_orchestrators_out_by_kind(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_podium_spec())
    denied = policy_pb2.ToolSelector(kinds=[tool_pb2.TOOL_KIND_PODIUM])
    await ada.create_policy(deny=denied)
    assert not (await ada.resolve("mine")).toolset.tools


async def test_what_could_not_be_called_is_rejected_at_registration(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    priced, taskless, untyped = make_podium_spec(), make_podium_spec(), make_podium_spec()
    priced.sku = "tool/researcher"
    taskless.parameters_json_schema = json.dumps({"type": "object", "properties": {}})
    untyped.parameters_json_schema = json.dumps(
        {"type": "object", "properties": {"task": {"type": "integer"}}, "required": ["task"]}
    )
    for spec, why in (
        (make_podium_spec(max_depth=1), "give 2 or more"),
        (make_podium_spec(max_depth=9), "give 0 to 8"),
        (priced, "has its own prices"),
        (taskless, "make it a required string"),
        (untyped, "make it a required string"),
    ):
        assert why in str((await rejected(ada.register(spec))).details())


async def register(
    caller: Caller, *specs: tool_pb2.ToolSpec, dry: bool = False, shared: bool = False
) -> list[pb.RegisteredTool]:
    request = pb.RegisterToolsRequest(specs=specs, validate_only=dry, shared=shared)
    return list((await caller.tools.RegisterTools(request)).tools)


async def names(caller: Caller) -> list[str]:
    listed = await caller.tools.ListTools(pb.ListToolsRequest(page_size=500))
    return [tool.spec.name for tool in listed.tools]


async def test_each_becomes_what_it_would_have_become_alone(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("old", description="first"))
    await ada.register(make_spec("old", description="second"))
    found = await register(
        ada,
        make_spec("new"),
        make_spec("old", description="first"),
        make_spec("other", description="x"),
    )
    assert [(each.name, each.version, each.created) for each in found] == [
        ("new", 1, True),
        ("old", 1, False),
        ("other", 1, True),
    ]
    # What is registered again is the newest again, and works.
    assert (await ada.tools.GetTool(pb.GetToolRequest(name="old"))).tool.version == 1
    again = await register(ada, make_spec("old", description="third"), make_spec("new"))
    assert [(each.version, each.created) for each in again] == [(3, True), (1, False)]
    tools = (await ada.resolve()).toolset.tools
    assert {tool.name: tool.version for tool in tools} == {"new": 1, "old": 3, "other": 1}


async def test_wrong_ones_are_left_out_with_their_reason(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await registry.platform().register(make_spec("everyones"), shared=True)
    found = await register(
        ada,
        make_spec("good"),
        make_spec("no schema", schema="{"),
        make_spec("unset", kind=tool_pb2.TOOL_KIND_UNSPECIFIED),
        make_spec("everyones"),
        make_spec("good", description="twice"),
        make_spec("fine"),
    )
    assert [each.version for each in found] == [1, 0, 0, 0, 0, 1]
    problems = [each.problem for each in found]
    assert not problems[0]
    assert not problems[5]
    assert "give a letter, then at most 63" in problems[1]
    assert "kind is unset" in problems[2]
    assert "is a tool of the platform" in problems[3]
    assert "a name of its own" in problems[4]
    assert await names(ada) == ["everyones", "fine", "good"]


async def test_trying_stores_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    [tried] = await register(ada, make_spec("new"), dry=True)
    assert (tried.version, tried.created) == (1, True)
    assert await names(ada) == []


async def test_a_tool_that_was_deleted_comes_back(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("gone"))
    await ada.tools.DeleteTool(pb.DeleteToolRequest(name="gone"))
    [back] = await register(ada, make_spec("gone"))
    assert (back.version, back.created) == (1, False)
    assert await names(ada) == ["gone"]


async def test_more_than_may_be_and_who_may_not_are_rejected(registry: RunningRegistry) -> None:
    ada = registry.as_()
    many = [make_spec(f"tool{number}") for number in range(501)]
    error = await rejected(register(ada, *many))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "at most 500" in str(error.details())
    for caller, shared in ((ada, True), (registry.as_("acme", Scope.EPISODES_RUN), False)):
        denied = await rejected(register(caller, make_spec(), shared=shared))
        assert denied.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("tenant", ["acme", "globex"])
async def test_a_shared_name_is_not_taken_by_tenants(
    registry: RunningRegistry, tenant: str
) -> None:
    await registry.as_(tenant).register(make_spec("mine"))
    [found] = await register(registry.platform(), make_spec("mine"), shared=True)
    assert "names a tool of 1 tenants" in found.problem


COUNT = 5
TEXT = "x" * 1_000
Page = Callable[[str], Awaitable[tuple[Sequence[str], str]]]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_BYTES_MAX", 2 * len(TEXT))


async def pages(page: Page) -> list[Sequence[str]]:
    found, token = [], ""
    while True:
        names, token = await page(token)
        found.append(names)
        if not token:
            return found


@pytest.mark.usefixtures("small_pages")
async def test_tools_and_their_versions_end_a_page_by_their_bytes(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    for number in range(COUNT):
        await ada.register(make_spec(f"tool-{number}", description=TEXT))
        await ada.register(make_spec("versions", description=f"{TEXT}{number}"))
    await ada.deprecate("versions")

    async def tools(token: str) -> tuple[Sequence[str], str]:
        request = pb.ListToolsRequest(page_size=500, page_token=token, query="tool-")
        reply = await ada.tools.ListTools(request)
        return [tool.spec.name for tool in reply.tools], reply.next_page_token

    async def versions(token: str) -> tuple[Sequence[str], str]:
        request = pb.ListToolVersionsRequest(name="versions", page_size=500, page_token=token)
        reply = await ada.tools.ListToolVersions(request)
        return [str(tool.version) for tool in reply.tools], reply.next_page_token

    assert await pages(tools) == [[f"tool-{number}"] for number in range(COUNT)]
    assert await pages(versions) == [[str(COUNT - number)] for number in range(COUNT)]


@pytest.mark.usefixtures("small_pages")
async def test_policies_end_a_page_by_their_bytes(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for number in range(COUNT):
        await ada.create_policy(f"policy-{number}", instruction=TEXT)

    async def policies(token: str) -> tuple[Sequence[str], str]:
        request = policies_pb.ListPoliciesRequest(page_size=500, page_token=token)
        reply = await ada.policies.ListPolicies(request)
        return [policy.spec.name for policy in reply.policies], reply.next_page_token

    # The presets come first, and are short.
    mine = [[n for n in page if n.startswith("policy-")] for page in await pages(policies)]
    assert [page for page in mine if page] == [[f"policy-{number}"] for number in range(COUNT)]


async def test_a_change_is_announced_to_those_who_wait(registry: RunningRegistry) -> None:
    follower, ada = registry.as_("podium", Scope.LEDGER_WRITE), registry.as_()
    known = (await follower.tools.AwaitChange(pb.AwaitChangeRequest())).version
    waiting = [
        asyncio.ensure_future(follower.tools.AwaitChange(pb.AwaitChangeRequest(version=known)))
        for _ in range(2)
    ]
    await ada.register(make_spec())
    assert {reply.version > known for reply in await asyncio.gather(*waiting)} == {True}

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from integration.tool_registry.builders import NO_ARGUMENTS, make_llm_spec, make_model, make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.common.v1.attachment_pb2 import (
    MEDIA_KIND_IMAGE,
    MEDIA_KIND_PDF,
    MEDIA_KIND_UNSPECIFIED,
    MediaKind,
)
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import SERVICE_SCOPES, Scope

HIDDEN = "hidden"
SECRET = tool_pb2.SecretRef(name=f"{HIDDEN}-key")
AUTH = tool_pb2.HttpAuth(bearer=SECRET)
CONNECTIONS = {
    "http": tool_pb2.Connection(
        http=tool_pb2.HttpConnection(method="GET", url_template=f"https://{HIDDEN}.test", auth=AUTH)
    ),
    "mcp": tool_pb2.Connection(
        mcp=tool_pb2.McpConnection(
            tool_name="get", http=tool_pb2.McpHttp(url=f"https://{HIDDEN}.test/mcp", secret=SECRET)
        )
    ),
    "program": tool_pb2.Connection(
        mcp=tool_pb2.McpConnection(tool_name="get", stdio=tool_pb2.McpStdio(server=HIDDEN))
    ),
    "grpc": tool_pb2.Connection(
        grpc=tool_pb2.GrpcConnection(
            target=f"dns:///{HIDDEN}.test:443", method="/a.B/C", secret=SECRET
        )
    ),
    "retrieval": tool_pb2.Connection(retrieval=tool_pb2.RetrievalConnection(corpus=HIDDEN)),
}
OWNERS: list[Callable[[RunningRegistry], Caller]] = [
    lambda registry: registry.platform(),
    *(
        lambda registry, scope=scope: registry.as_("acme", scope)
        for scope in sorted(SERVICE_SCOPES)
    ),
]


def specs() -> dict[str, tool_pb2.ToolSpec]:
    address = f"https://{HIDDEN}.test/v1"
    endpoint = tool_pb2.LlmEndpoint(base_url=address, secret=SECRET)
    models = [
        make_model("small", base_url=address, secret=SECRET),
        make_model("large", base_url="", endpoints=[endpoint]),
    ]
    found = {"expert": make_llm_spec(*models, name="expert")}
    found["expert"].connection.llm.system_prompt = f"You know {HIDDEN}."
    for name, connection in CONNECTIONS.items():
        kind = tool_pb2.ToolKind.Value(f"TOOL_KIND_{str(connection.WhichOneof('target')).upper()}")
        found[name] = make_spec(name, NO_ARGUMENTS, kind=kind, connection=connection)
    return found


async def seen(caller: Caller) -> list[tool_pb2.Tool]:
    tools = list((await caller.tools.ListTools(pb.ListToolsRequest(page_size=100))).tools)
    found = await caller.tools.SearchTools(pb.SearchToolsRequest(query="arithmetic", page_size=99))
    tools += [each.tool for each in found.results]
    for name in specs():
        request = pb.ListToolVersionsRequest(name=name)
        tools += (await caller.tools.ListToolVersions(request)).tools
        tools += [await caller.get(name), await caller.get(name, 1)]
    return tools


async def register(caller: Caller, *, shared: bool) -> None:
    for name, spec in specs().items():
        if name == "program" and not shared:
            # It has the operator's price.
            spec.sku = ""
        await caller.register(spec, shared=shared)


def is_whole(tool: tool_pb2.Tool) -> bool:
    return tool.spec.connection == specs()[tool.spec.name].connection


async def test_connections_of_shared_tools_are_hidden_from_tenants(
    registry: RunningRegistry,
) -> None:
    await register(registry.platform(), shared=True)
    for scope in (Scope.TENANT_ADMIN, Scope.TOOLS_WRITE, Scope.EPISODES_RUN):
        tools = await seen(registry.as_("acme", scope))
        assert {tool.spec.name for tool in tools} == set(specs())
        for tool in tools:
            assert HIDDEN not in str(tool), tool
            kind = specs()[tool.spec.name].connection.WhichOneof("target")
            assert tool.spec.connection.WhichOneof("target") == kind
            assert tool.spec.description
    shown = (await registry.as_("acme", Scope.EPISODES_RUN).get("expert")).spec.connection.llm
    model, _ = shown.models
    assert (model.alias, model.model, model.sku) == ("small", "vendor/small", "llm/small")
    assert model.description and shown.role == tool_pb2.LLM_ROLE_GENERALIST


async def test_connections_of_a_tenants_tools_are_hidden_from_those_who_only_use_them(
    registry: RunningRegistry,
) -> None:
    # A program is named where the operator shares the same tool of it.
    operators = make_spec(
        "shared_program",
        NO_ARGUMENTS,
        kind=tool_pb2.TOOL_KIND_MCP,
        connection=CONNECTIONS["program"],
    )
    await registry.platform().register(operators, shared=True)
    await register(registry.as_("acme", Scope.TOOLS_WRITE), shared=False)
    assert HIDDEN not in str(await seen(registry.as_("acme", Scope.EPISODES_RUN)))
    for scope in (Scope.TOOLS_WRITE, Scope.TENANT_ADMIN):
        found = await seen(registry.as_("acme", scope))
        assert all(is_whole(tool) for tool in found if not tool.shared)


@pytest.mark.parametrize("owner", OWNERS, ids=["platform", *sorted(SERVICE_SCOPES)])
async def test_owners_and_services_see_whole_connections(
    registry: RunningRegistry, owner: Callable[[RunningRegistry], Caller]
) -> None:
    await register(registry.platform(), shared=True)
    assert all(map(is_whole, await seen(owner(registry))))


BOTH = [MEDIA_KIND_IMAGE, MEDIA_KIND_PDF]
LAWN = "How tall is the grass?"


async def test_an_episode_is_told_which_models_read_what(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("eyes", takes=BOTH), make_model("blind")))
    await ada.register(make_llm_spec(make_model("one", takes=BOTH[:1]), name="lens"))
    await ada.register(make_llm_spec(make_model("text"), name="writer"))
    tools = {tool.name: tool for tool in (await ada.resolve()).toolset.tools}
    assert {name: list(kinds.kinds) for name, kinds in tools["answer"].model_takes.items()} == {
        "eyes": BOTH
    }
    assert tools["answer"].description.splitlines()[1:] == [
        "- eyes: eyes is good at some things. Reads images and PDF files.",
        "- blind: blind is good at some things.",
    ]
    assert tools["lens"].description == "Answers questions. Reads images."
    assert tools["writer"].description == "Answers questions."
    assert not tools["writer"].model_takes


async def test_a_model_that_the_policy_denies_reads_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("eyes", takes=BOTH), make_model("blind")))
    await ada.create_policy("mine", deny=policy_pb2.ToolSelector(models=["eyes"]))
    [tool] = (await ada.resolve("mine")).toolset.tools
    assert not tool.model_takes and "Reads" not in tool.description


async def test_who_reads_what_is_attached_goes_first(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for name in ("mower", "rake", "spade"):
        await ada.register(make_spec(name, description=f"Says how tall the grass is: {name}."))
    await ada.register(
        make_llm_spec(make_model("eyes", takes=BOTH[:1]), name="zoom", description="Music.")
    )
    await ada.create_policy("mine")
    request = pb.ResolveToolsetRequest(policy="mine", task=LAWN, tools_max=2)
    without = await ada.tools.ResolveToolset(request)
    request.attached.append(MEDIA_KIND_IMAGE)
    with_image = await ada.tools.ResolveToolset(request)
    assert "zoom" not in [tool.name for tool in without.toolset.tools]
    assert "zoom" in [tool.name for tool in with_image.toolset.tools]
    assert len(with_image.toolset.tools) == len(without.toolset.tools)


@pytest.mark.parametrize(
    ("api", "options", "words"),
    [
        ("OPENAI_CHAT", {"body": {"max_tokens": 5}}, "options.body.max_tokens is written by"),
        ("OPENAI_CHAT", {"headers": {"Authorization": "x"}}, "name a secret instead"),
        ("OPENAI_CHAT", {"headers": {"host": "x"}}, "options.headers: host belongs to"),
        ("ANTHROPIC_MESSAGES", {"verbosity": "low"}, "options.verbosity is OpenAI's"),
    ],
)
async def test_options_that_podium_writes_or_the_api_lacks_are_rejected(
    registry: RunningRegistry, api: str, options: dict[str, Any], words: str
) -> None:
    spec = make_llm_spec(make_model("eyes", api=tool_pb2.LlmApi.Value(f"LLM_API_{api}")))
    ParseDict(options, spec.connection.llm.models[0].options)
    error = await rejected(registry.as_().register(spec))
    assert words in (error.details() or "")


ADDRESS = "https://api.example.com/v1"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": ""}, "models[0].base_url is empty; give it, or several endpoints"),
        ({"endpoints": [{"base_url": ADDRESS}]}, "models[0].base_url is set beside endpoints"),
        (
            {"base_url": "", "secret": SECRET, "endpoints": [{"base_url": ADDRESS}]},
            "models[0].secret is set beside endpoints",
        ),
        (
            {"base_url": "", "endpoints": [{"base_url": ADDRESS}, {"base_url": ADDRESS}]},
            "models[0].endpoints[1] is there twice",
        ),
        ({"base_url": "", "endpoints": [{"secret": SECRET}]}, "endpoints[0].base_url is empty"),
        (
            {"base_url": "", "endpoints": [{"base_url": "https://key@api.example.com/v1"}]},
            "endpoints[0].base_url holds credentials; use a secret",
        ),
    ],
)
async def test_a_model_has_one_address_or_several_endpoints(
    registry: RunningRegistry, fields: dict[str, Any], words: str
) -> None:
    error = await rejected(registry.as_().register(make_llm_spec(make_model("eyes", **fields))))
    assert words in (error.details() or "")


@pytest.mark.parametrize(
    ("takes", "role", "words"),
    [
        ([MEDIA_KIND_UNSPECIFIED], tool_pb2.LLM_ROLE_GENERALIST, "give image, pdf"),
        ([MEDIA_KIND_PDF] * 2, tool_pb2.LLM_ROLE_GENERALIST, "names a kind twice"),
        ([MEDIA_KIND_IMAGE], tool_pb2.LLM_ROLE_EMBEDDER, "embedder takes text alone"),
    ],
    ids=["unset", "twice", "embedder"],
)
async def test_what_cannot_be_read_is_rejected(
    registry: RunningRegistry,
    takes: list[MediaKind.ValueType],
    role: tool_pb2.LlmRole.ValueType,
    words: str,
) -> None:
    embeds = role == tool_pb2.LLM_ROLE_EMBEDDER
    api = tool_pb2.LLM_API_OPENAI_EMBEDDINGS if embeds else tool_pb2.LLM_API_OPENAI_CHAT
    spec = make_llm_spec(make_model("eyes", takes=takes, api=api))
    spec.connection.llm.role = role
    error = await rejected(registry.as_().register(spec))
    assert words in (error.details() or "")
    assert "connection.llm.models[0].takes" in (error.details() or "")


async def test_a_tool_shows_what_its_models_accept(registry: RunningRegistry) -> None:
    openai = "https://api.openai.com/v1"
    stated = tool_pb2.LlmCapabilities(family="openai", efforts=["low", "max"])
    models = [
        make_model("known", model="gpt-5", base_url=openai),
        make_model("unknown"),
        make_model("stated", model="gpt-5", capabilities=stated),
        make_model("router", model="openai/gpt-5", base_url="https://llm.example.com/v1"),
    ]
    ada = registry.as_()
    await ada.register(make_llm_spec(*models))
    shown = (await ada.get("answer")).model_capabilities
    known = shown["known"]
    assert (known.family, known.output_cap) == ("openai", "max_completion_tokens")
    assert (known.sampling, known.default_effort) == ("rejected", "medium")
    assert shown["router"] == known
    assert shown["unknown"] == tool_pb2.LlmCapabilities(
        output_cap="max_tokens", sampling="accepted", stream_options=True, parallel_calls=1
    )
    assert list(shown["stated"].efforts) == ["low", "max"]
    assert (shown["stated"].sampling, shown["stated"].default_effort) == ("rejected", "")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"capabilities": {"family": "opneai"}}, "no family 'opneai'; name one of openai, azure"),
        ({"capabilities": {"output_cap": "tokens"}}, "output_cap: Input should be 'max_tokens'"),
        (
            {"capabilities": {"efforts": ["low"], "default_effort": "high"}},
            "not one of the efforts",
        ),
        (
            {"model": "gpt-5", "options": {"reasoning_effort": "hgih"}},
            "reasoning_effort is 'hgih', and gpt-5 accepts minimal, low, medium, high; state",
        ),
    ],
    ids=["family", "output_cap", "default_effort", "effort"],
)
async def test_capabilities_that_cannot_be_are_rejected_with_their_field(
    registry: RunningRegistry, model: dict[str, Any], words: str
) -> None:
    message = ParseDict(model, make_model("expert"))
    error = await rejected(registry.as_().register(make_llm_spec(message)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "connection.llm.models[0]." in str(error.details())
    assert words in str(error.details())

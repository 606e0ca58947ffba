import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import grpc
import pytest

from builders.tool_calls import tool_call, tool_definition
from callers import make_identity
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as rpc
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.concurrency import FairSemaphore
from podium_kit.metering import Dimension, Usage, UsageSource
from podium_kit.rpc.errors import NotFound, ShortOfResources, Unavailable
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import CODE, FUNCTION, HTTP, RETRIEVAL, ToolKind
from tool_adapters import clients
from tool_adapters.adapter import Adapter, AdapterResult, Answer, CallFailed, Output, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.calls.bulkheads import FAILURES_TO_OPEN, Gates
from tool_adapters.calls.effects import Claim, ClaimAttempt, EffectLog
from tool_adapters.calls.facts import WINDOW_S, Facts, FactsBook
from tool_adapters.clients import RegistryTools
from tool_adapters.code.adapter import CodeAdapter
from tool_adapters.guardrails.servers import ServerGuardrails
from tool_adapters.guardrails.service import Guardrails
from tool_adapters.http.client import HttpReply, host_of
from tool_adapters.http.oauth2_tokens import OAuth2Tokens
from tool_adapters.models import (
    CodeConnection,
    Connection,
    FunctionConnection,
    HttpConnection,
    Limits,
    OAuth2Auth,
    RetrievalConnection,
    SideEffect,
    ToolDefinition,
)
from tool_adapters.response_cache.service import ResponseCache
from tool_adapters.response_cache.store import PostgresResponseCache
from tool_adapters.retrieval.adapter import RetrievalAdapter
from tool_adapters.secret_store import MountedSecrets
from tool_adapters.service import CallRequest, Invoker

Behaviour = Callable[[], Awaitable[AdapterResult]]


class ScriptedAdapter(Adapter):
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        return await self._behaviour()

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


class OneTool:
    def __init__(self, definition: ToolDefinition) -> None:
        self._definition = definition

    async def tool(self, tenant: str, name: str, version: int) -> ToolDefinition:
        return self._definition


class NoEffects:
    async def claim(self, tenant: str, key: str, digest: str, attempt: ClaimAttempt) -> Claim:
        raise AssertionError

    async def release(self, tenant: str, key: str, claim_id: UUID) -> None:
        raise AssertionError

    async def answer(self, tenant: str, key: str, answer: Answer) -> None:
        raise AssertionError


def make_tool(kind: ToolKind = FUNCTION, **limits: Any) -> ToolDefinition:
    return tool_definition("oracle", kind, FunctionConnection("oracle"), limits=Limits(**limits))


def make_invoker(tool: ToolDefinition, behaviour: Behaviour, gates: Gates | None = None) -> Invoker:
    adapters = {tool.kind: ScriptedAdapter(behaviour)}
    return Invoker(
        tools=OneTool(tool),
        adapters=adapters,
        attempts=Attempts(adapters),
        gates=gates or Gates(),
        effects=EffectLog(NoEffects()),
        facts=FactsBook(),
        guardrails=Guardrails(cast(ServerGuardrails, None)),
        responses=ResponseCache(cast(PostgresResponseCache, None)),
    )


async def invoke(invoker: Invoker, tenant: str = "acme", arguments: str = "{}") -> Answer:
    request = CallRequest("e/0/tool/0", "e", "oracle", 1, arguments, "", "", 0)
    with acting_as(make_identity(tenant)):
        return await invoker.invoke(request)


@pytest.mark.parametrize(
    ("values", "words"),
    [("[" + "{}," * 60_000 + "{}]", "commas"), ("[" * 200 + "]" * 200, "nested")],
    ids=["many", "deep"],
)
async def test_arguments_of_too_many_values_are_not_parsed(values: str, words: str) -> None:
    async def unreached() -> AdapterResult:
        raise AssertionError

    answer = await invoke(make_invoker(make_tool(), unreached), arguments=f'{{"a": {values}}}')
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.INVALID_ARGUMENTS
    assert words in answer.outcome.message


async def test_a_bug_in_an_adapter_is_an_internal_failure_without_its_details() -> None:
    async def crash() -> AdapterResult:
        raise ZeroDivisionError("the secret detail")

    answer = await invoke(make_invoker(make_tool(), crash))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.INTERNAL
    assert "detail" not in answer.outcome.message


@pytest.mark.parametrize(
    "shortage",
    [MemoryError(), OSError(errno.EMFILE, "files"), RuntimeError("can't start new thread")],
)
async def test_a_shortage_of_this_process_is_no_answer(shortage: Exception) -> None:
    async def crash() -> AdapterResult:
        raise shortage

    with pytest.raises(ShortOfResources):
        await invoke(make_invoker(make_tool(), crash))


async def test_a_call_that_finds_no_place_used_nothing() -> None:
    async def never() -> AdapterResult:
        raise AssertionError

    tool, gates = make_tool(timeout_s=0.05, max_concurrency=1), Gates()
    async with gates.of("acme", tool, "").places.slot("acme"):
        answer = await invoke(make_invoker(tool, never, gates))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.UNAVAILABLE
    assert "busy" in answer.outcome.message
    assert answer.attempts == 0
    assert not answer.usage.quantities


async def test_a_tool_that_one_tenant_finds_unwell_is_well_for_others() -> None:
    async def away() -> AdapterResult:
        return AdapterResult(ToolFailure(FailureKind.UNAVAILABLE, "connection refused"))

    async def talk() -> AdapterResult:
        return AdapterResult(Output("here"))

    tool, gates = make_tool(), Gates()
    for _ in range(FAILURES_TO_OPEN):
        await invoke(make_invoker(tool, away, gates))
    rested = await invoke(make_invoker(tool, talk, gates))
    assert isinstance(rested.outcome, ToolFailure)
    assert "left alone" in rested.outcome.message
    other = await invoke(make_invoker(tool, talk, gates), "other")
    assert isinstance(other.outcome, Output)


async def test_programs_that_run_for_too_long_do_not_make_the_sandbox_unwell() -> None:
    async def hang() -> AdapterResult:
        return AdapterResult(ToolFailure(FailureKind.TIMEOUT, "the program ran for 10 s"))

    tool, gates = make_tool(CODE), Gates()
    for _ in range(FAILURES_TO_OPEN + 1):
        answer = await invoke(make_invoker(tool, hang, gates))
        assert isinstance(answer.outcome, ToolFailure)
        assert answer.outcome.kind is FailureKind.TIMEOUT


async def test_a_timeout_inside_of_the_tool_is_not_the_calls_timeout() -> None:
    async def own_timeout() -> AdapterResult:
        raise TimeoutError

    answer = await invoke(make_invoker(make_tool(), own_timeout))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.INTERNAL


async def test_an_output_over_the_limit_is_no_output() -> None:
    async def talk() -> AdapterResult:
        return AdapterResult(Output("ä" * 6))

    assert isinstance(
        (await invoke(make_invoker(make_tool(max_output_bytes=12), talk))).outcome, Output
    )
    answer = await invoke(make_invoker(make_tool(max_output_bytes=11), talk))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.OUTPUT_TOO_LARGE
    assert answer.usage.source is UsageSource.MEASURED


async def test_a_cancelled_call_does_not_keep_its_place() -> None:
    async def hang() -> AdapterResult:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    started, tool, gates = asyncio.Event(), make_tool(max_concurrency=1), Gates()
    running = asyncio.create_task(invoke(make_invoker(tool, hang, gates)))
    await started.wait()
    running.cancel()
    await asyncio.wait({running})
    assert not gates.of("acme", tool, "").places.is_exhausted


UNREACHED: Any = None


def tool_of(kind: ToolKind, connection: Connection) -> ToolDefinition:
    schema = {"type": "object"}
    return ToolDefinition("t", 1, kind, schema, None, connection, SideEffect.PURE)


@pytest.mark.parametrize(
    ("kind", "connection", "arguments", "words"),
    [
        (RETRIEVAL, RetrievalConnection("laws"), {}, "give query"),
        (RETRIEVAL, RetrievalConnection("laws"), {"query": "x", "top_k": "few"}, "top_k"),
        (CODE, CodeConnection(), {"program": "6 * 7"}, "give code"),
    ],
)
async def test_arguments_that_only_the_adapter_needs_are_asked_for(
    kind: ToolKind, connection: Connection, arguments: dict[str, Any], words: str
) -> None:
    adapters: dict[ToolKind, Adapter] = {
        RETRIEVAL: RetrievalAdapter(UNREACHED),
        CODE: CodeAdapter(UNREACHED, FairSemaphore(1)),
    }
    call = tool_call("t", arguments)
    attempts = Attempts(adapters)
    answer = await attempts.make(CallProgress(call, tool_of(kind, connection)))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.INVALID_ARGUMENTS
    assert words in answer.outcome.message
    assert answer.unsent


@pytest.mark.parametrize("port", ["65536", "http", "-1", "0"])
def test_a_port_that_is_none_is_no_url(port: str) -> None:
    with pytest.raises(CallFailed, match="not an http or https URL"):
        host_of(f"https://api.example.com:{port}/v1")


async def test_a_token_that_lasts_for_ever_is_no_token() -> None:
    class Client:
        async def send(self, *_: Any) -> HttpReply:
            body = b'{"access_token": "t0ken", "token_type": "bearer", "expires_in": 1e999}'
            return HttpReply(200, {}, body)

    client: Any = Client()
    secrets = MountedSecrets(None, {"TOOL_ADAPTERS_SECRET_ACME__KEY": "s3cr3t-value"})
    auth = OAuth2Auth("https://login.example.com/token", "podium", "key")
    tool = tool_of(HTTP, HttpConnection("GET", "https://api.example.com", auth=auth))
    with pytest.raises(CallFailed, match="something else than a bearer token"):
        await OAuth2Tokens(client, secrets).token(auth, "acme", tool)


CALL = Usage.of(UsageSource.MEASURED, call=1)


def test_a_models_calls_count_for_its_tool_too() -> None:
    book = FactsBook()
    for latency_s, succeeded in ((0.1, True), (0.3, True), (0.2, False)):
        book.record("acme", ("expert", "small"), latency_s, CALL, succeeded=succeeded)
    book.record("acme", ("expert", "large"), 1.0, CALL, succeeded=True)
    facts = {entry.model_alias: entry for entry in book.take_changes()["acme"]}
    assert facts[""].sample_count == 4
    assert facts["small"].sample_count == 3
    assert abs(facts["small"].latencies.quantile_s(0.5) - 0.2) < 0.002
    assert facts["small"].success_rate == 2 / 3
    assert facts["large"].latencies.total == 1
    assert [(entry.dimension, entry.amount) for entry in facts[""].usage] == [
        (Dimension.CALL, Decimal(4))
    ]


def test_only_changes_are_given_out() -> None:
    book = FactsBook()
    book.record("acme", ("api", ""), 0.1, CALL, succeeded=True)
    assert book.take_changes().keys() == {"acme"}
    book.record("other", ("api", ""), 0.1, CALL, succeeded=True)
    assert book.take_changes().keys() == {"other"}
    assert not book.take_changes()


def test_old_samples_are_forgotten() -> None:
    now = 0.0
    book = FactsBook(clock=lambda: now)
    book.record("acme", ("slow", ""), 9.0, CALL, succeeded=False)
    now = WINDOW_S + 1
    book.record("acme", ("fast", ""), 0.1, CALL, succeeded=True)
    assert [entry.tool_name for entry in book.take_changes()["acme"]] == ["fast"]


def test_the_95th_percentile_lies_among_the_slowest() -> None:
    book = FactsBook()
    for hundredths in range(1, 101):
        book.record("acme", ("api", ""), hundredths / 100, CALL, succeeded=True)
    (facts,) = book.take_changes()["acme"]
    assert 0.94 <= facts.latencies.quantile_s(0.95) <= 0.97


async def test_a_report_that_is_rejected_keeps_no_other_tenants_back() -> None:
    sent = []

    async def send(tenant: str, _: list[Facts]) -> None:
        sent.append(tenant)
        if tenant == "gone":
            raise NotFound("there is no tool api")

    book = FactsBook()
    for tenant in ("acme", "gone", "other"):
        book.record(tenant, ("api", ""), 0.1, CALL, succeeded=True)
    with pytest.raises(NotFound):
        await book.report(send)
    assert sorted(sent) == ["acme", "gone", "other"]


class RegistryOfOneTool(rpc.ToolRegistryServiceServicer):
    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self.places = 2

    async def GetTool(self, request: pb.GetToolRequest, context: Any) -> pb.GetToolResponse:
        spec = tool_pb2.ToolSpec(name=request.name, kind=tool_pb2.TOOL_KIND_FUNCTION)
        spec.connection.function.function = "convert_currency"
        spec.limits.max_concurrency = self.places
        tool = tool_pb2.Tool(spec=spec, version=request.version, shared=self._shared)
        return pb.GetToolResponse(tool=tool)


@asynccontextmanager
async def registry_tools(
    *, shared: bool, servicer: RegistryOfOneTool | None = None
) -> AsyncIterator[RegistryTools]:
    server = grpc.aio.server()
    servicer = servicer or RegistryOfOneTool(shared=shared)  # type: ignore[abstract]
    rpc.add_ToolRegistryServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield RegistryTools(channel)
    await server.stop(None)


async def test_tenants_take_the_places_of_a_shared_tool_from_each_other() -> None:
    gates = Gates()
    async with registry_tools(shared=True) as tools:
        first = gates.of("acme", await tools.tool("acme", "convert", 1), "")
        second = gates.of("other", await tools.tool("other", "convert", 1), "")
        newer = gates.of("other", await tools.tool("other", "convert", 2), "")
    # The places are of the function that both versions call.
    assert first.places is second.places is newer.places
    assert first.breaker is not second.breaker


async def test_tools_of_two_tenants_have_places_of_their_own() -> None:
    async with registry_tools(shared=False) as tools:
        mine, theirs = await tools.tool("acme", "ask", 1), await tools.tool("other", "ask", 1)
        assert await tools.tool("acme", "ask", 1) is mine
    assert mine is not theirs


async def test_the_operators_later_terms_reach_a_tenants_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "TERMS_KEPT_S", 0.0)
    servicer = RegistryOfOneTool(shared=False)  # type: ignore[abstract]
    async with registry_tools(shared=False, servicer=servicer) as tools:
        before = await tools.tool("acme", "ask", 1)
        assert await tools.tool("acme", "ask", 1) is before
        servicer.places = 5
        assert (await tools.tool("acme", "ask", 1)).limits.max_concurrency == 5


async def test_a_tool_that_is_known_is_called_while_the_registry_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "TERMS_KEPT_S", 0.0)
    async with registry_tools(shared=False) as tools:
        before = await tools.tool("acme", "ask", 1)

        async def away(*_: object) -> tool_pb2.Tool:
            raise Unavailable("the registry is away")

        monkeypatch.setattr(tools, "_fetch", away)
        assert await tools.tool("acme", "ask", 1) is before

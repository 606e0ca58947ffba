from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from callers import make_identity
from gateway.chat.call_ids import CallId
from gateway.chat.outcomes import episode_error, finish_reason
from gateway.chat.response import podium, usage
from gateway.convert import direct_outcome_from_proto, outcome_from_proto
from gateway.episode_ids import EpisodeIds
from gateway.errors import InvalidIdempotencyKey
from gateway.http.error_responses import error_body, error_response, http_status
from gateway.mcp_server.endpoint import McpEndpoint
from gateway.mcp_server.resources import TenantResources
from gateway.messages.response import message
from gateway.models import KeptRequest, Outcome, StopReason
from gateway.responses.ids import ResponseId
from gateway.responses.mcp_servers import LABEL, RegisteredMcpTools, label_of
from gateway.responses.mcp_tools import McpTool, RegisteredTool
from gateway.responses.response import Shape
from gateway.tally import Tally
from podium.episodes.v1 import direct_call_service_pb2, episode_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension
from podium_kit.money import Money
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import acting_as
from unit.gateway.waiting_episodes import UNUSED


def make_outcome(
    stop_reason: StopReason = StopReason.ANSWERED,
    failure: ToolFailure | None = None,
    turn_count: int = 1,
    cost: Money | None = None,
    tally: Tally | None = None,
    answer: str = "",
) -> Outcome:
    return Outcome(
        episode_id="0190",
        stop_reason=stop_reason,
        answer=answer,
        failure=failure,
        turn_count=turn_count,
        tool_call_count=0,
        cost=cost,
        unpriced_call_count=0,
        tally=tally or {},
        policy_name="balanced",
        policy_version=1,
    )


def test_a_limit_before_the_first_turn_is_an_error_and_not_an_empty_answer() -> None:
    with pytest.raises(DomainError) as raised:
        finish_reason(make_outcome(StopReason.DEADLINE, turn_count=0))
    assert http_status(raised.value)[0] == 504


OPENAI_CODES = {
    FailureKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FailureKind.BLOCKED: "content_filter",
}


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_a_status_and_a_code(kind: FailureKind) -> None:
    outcome = make_outcome(StopReason.FAILED, ToolFailure(kind, "the cause"))
    error = episode_error(outcome)
    assert http_status(error)[0] >= 400
    code = error_body(error)["error"]["code"]
    assert code == OPENAI_CODES.get(kind, f"episode_{kind.name.lower()}")
    assert "the cause" in error.message


def test_a_failure_that_says_when_to_retry_says_so_in_http() -> None:
    failure = ToolFailure(FailureKind.RATE_LIMITED, "slow down", True, retry_after_s=1.2)
    reply = error_response(episode_error(make_outcome(StopReason.FAILED, failure)))
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "2")
    assert reply.headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("reason", "chat", "messages", "responses"),
    [
        ("stop", "stop", "end_turn", None),
        ("length", "length", "max_tokens", "max_output_tokens"),
        ("content_filter", "content_filter", "refusal", "content_filter"),
        ("refusal", "content_filter", "refusal", "content_filter"),
    ],
)
def test_the_reason_for_a_models_end_is_each_apis_own(
    reason: str, chat: str, messages: str, responses: str | None
) -> None:
    """Public report 17."""
    call = direct_call_service_pb2.DirectCall(id="0190", content="half a", finish_reason=reason)
    outcome = direct_outcome_from_proto(call)
    assert finish_reason(outcome) == chat
    assert message(outcome, "m")["stop_reason"] == messages
    assert message(outcome, "m")["content"] == [{"type": "text", "text": "half a"}]
    response = Shape(ResponseId(str(UUID(int=1)), 0), "m").ended(outcome)
    assert response["status"] == ("incomplete" if responses else "completed")
    assert (response["incomplete_details"] or {}).get("reason") == responses


def test_every_token_is_in_the_usage_once() -> None:
    tally = dict.fromkeys(Dimension, Decimal(10))
    counted = usage(make_outcome(tally=tally))
    assert counted["prompt_tokens"] == 50
    assert counted["completion_tokens"] == 30
    assert counted["total_tokens"] == 80
    assert counted["prompt_tokens_details"] == {"cached_tokens": 10}


def test_an_unknown_cost_is_null_and_a_tiny_one_is_exact() -> None:
    assert podium(make_outcome())["cost"] is None
    tiny = Money.parse("0.00000000015", "USD")
    assert podium(make_outcome(cost=tiny))["cost"]["amount"] == "0.00000000015"


def test_what_the_model_was_not_shown_is_in_the_answer() -> None:
    said = "turn 1: not shown to the model, whose context was full: 290 of 329 tools"
    outcome = outcome_from_proto(episode_pb2.Episode(id="0190", warnings=[said]))
    assert podium(outcome)["warnings"] == [said]
    assert "warnings" not in podium(make_outcome())


@given(st.uuids(version=4), st.integers(0, 65535), st.integers(0, 65535))
def test_an_id_is_read_as_it_was_written(episode: object, turn: int, index: int) -> None:
    call = CallId(str(episode), turn, index)
    assert CallId.read(str(call)) == call
    # OpenAI's own API takes ids of at most 40 characters.
    assert len(str(call)) <= 40


@given(st.text())
def test_any_other_text_is_none_of_ours(text: str) -> None:
    assert CallId.read(text) is None


@pytest.mark.parametrize("encoded", ["", "!" * 27, "é" * 27, "A" * 28])
def test_what_only_looks_like_one_is_none(encoded: str) -> None:
    assert CallId.read(f"call_{encoded}") is None


STATEMENT = "[SQL: INSERT INTO idempotency_keys]"
# For newer ones the library shows nothing by itself.
VERSIONS = ["2025-06-18", "2025-11-25"]


class Broken:
    async def page(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(STATEMENT)

    call = read = page


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("tools/call", {"name": "calculator", "arguments": {}}),
        ("resources/list", {}),
        ("resources/read", {"uri": "podium://corpora/a"}),
    ],
)
async def test_nothing_of_the_inside_is_shown(
    method: str, params: dict[str, Any], version: str
) -> None:
    broken: Any = Broken()
    endpoint = McpEndpoint(UNUSED, broken, broken)
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    transport = httpx.ASGITransport(endpoint)
    async with (
        endpoint.running(),
        httpx.AsyncClient(transport=transport, base_url="http://gateway") as http,
    ):
        reply = await http.post("/v1/mcp", json=asked, headers=headers)
    assert STATEMENT not in reply.text
    assert "quote the request id" in reply.text


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "x" * 256])
async def test_a_key_that_cannot_be_stored_is_rejected(key: str) -> None:
    with acting_as(make_identity()), pytest.raises(InvalidIdempotencyKey):
        async with EpisodeIds(UNUSED).starting_with(key, b""):
            pass


@pytest.mark.parametrize("uri", ["podium://[x", "podium://corpora]"])
async def test_what_is_no_uri_is_no_resource(uri: str) -> None:
    with pytest.raises(MCPError, match="there is no podium"):
        await TenantResources(UNUSED).read(uri)


CLOCK = RegisteredTool(
    name="clock_now",
    server="clock",
    url="",
    own_name="now",
    description="",
    parameters_schema={},
    read_only=True,
)


ELSEWHERE = replace(CLOCK, server="", url="https://mcp.example.com/?key=s3cr3t")


class OneTool:
    def __init__(self, tool: RegisteredTool = CLOCK) -> None:
        self._tool = tool

    async def registered(self) -> list[RegisteredTool]:
        return [self._tool]

    async def allowed(self, policy: str) -> frozenset[str]:
        return frozenset({CLOCK.name})


async def test_what_a_response_kept_of_its_servers_finds_them_again() -> None:
    kept = label_of([McpTool(type="mcp", server_label="clock")])[LABEL]
    [server] = await RegisteredMcpTools(OneTool()).kept(KeptRequest(kept, (CLOCK.name,)))
    assert (server.label, server.tools) == ("clock", (CLOCK,))


async def test_what_is_kept_of_a_server_does_not_show_its_url() -> None:
    wanted = McpTool(type="mcp", server_label="far", server_url=f"{ELSEWHERE.url}/")
    kept = label_of([wanted])[LABEL]
    assert "s3cr3t" not in kept and "example" not in kept
    request = KeptRequest(kept, (ELSEWHERE.name,))
    [server] = await RegisteredMcpTools(OneTool(ELSEWHERE)).kept(request)
    assert (server.label, server.tools) == ("far", (ELSEWHERE,))
    assert await RegisteredMcpTools(OneTool(CLOCK)).kept(request) == ()


@pytest.mark.parametrize("label", ["", "on", "[]", "null", '{"clock": 1}', "[" * 256])
async def test_a_label_of_that_name_that_a_caller_chose_names_no_servers(label: str) -> None:
    assert await RegisteredMcpTools(OneTool()).kept(KeptRequest(label, (CLOCK.name,))) == ()

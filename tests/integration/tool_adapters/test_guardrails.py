import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer
from integration.tool_adapters.tool_specs import calculator_spec, http_spec, llm_spec
from openai_server import OpenAiServer, Reply
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import guardrail_pb2, policy_pb2, tool_pb2
from servers.guardrail_server import GuardrailServer, running_guardrail_server

BLOCK = guardrail_pb2.GUARDRAIL_ACTION_BLOCK
REDACT = guardrail_pb2.GUARDRAIL_ACTION_REDACT
FLAG = guardrail_pb2.GUARDRAIL_ACTION_FLAG
PASSED = guardrail_pb2.GUARDRAIL_VERDICT_PASSED
FLAGGED = guardrail_pb2.GUARDRAIL_VERDICT_FLAGGED
REDACTED = guardrail_pb2.GUARDRAIL_VERDICT_REDACTED
BLOCKED = guardrail_pb2.GUARDRAIL_VERDICT_BLOCKED
FAILED = guardrail_pb2.GUARDRAIL_VERDICT_FAILED
INPUT = guardrail_pb2.GUARDRAIL_STAGE_INPUT
OUTPUT = guardrail_pb2.GUARDRAIL_STAGE_OUTPUT
MAIL = "write to ada@example.com"
PERSONAL_DATA = guardrail_pb2.PersonalData()
TULIPS = guardrail_pb2.DenyList(words=["tulip"])


def guardrail(action: int, name: str = "guard", **check: Any) -> policy_pb2.Guardrail:
    return policy_pb2.Guardrail(
        name=name, action=guardrail_pb2.GuardrailAction.ValueType(action), **check
    )


def server_guardrail(url: str, action: int = BLOCK, **fields: Any) -> policy_pb2.Guardrail:
    timeout = Duration(seconds=fields.pop("timeout_s", 10))
    http = guardrail_pb2.HttpGuard(url=url, timeout=timeout, **fields)
    return guardrail(action, http=http)


def verdicts(answer: pb.InvokeResponse) -> list[tuple[int, int]]:
    return [(each.stage, each.verdict) for each in answer.guardrails]


@pytest_asyncio.fixture
async def guard() -> AsyncIterator[GuardrailServer]:
    async with running_guardrail_server() as server:
        yield server


@pytest_asyncio.fixture
async def reaching(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    """Adapters whose operator lets tenants reach this machine."""
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"),
            tmp_path,
            registry,
            allowed_hosts=frozenset({"127.0.0.1"}),
        ) as running,
    ):
        yield running


def posting(web: WebServer) -> tool_pb2.ToolSpec:
    return http_spec(f"{web.url}/echo/x", "POST")


async def test_a_blocked_call_is_not_made_and_costs_nothing(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(posting(web))
    answer = await adapters.call(
        name, {"text": MAIL}, guardrails=[guardrail(BLOCK, personal_data=PERSONAL_DATA)]
    )
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
    assert "the guardrail guard blocked the call: 1 email" in answer.failure.message
    assert answer.unsent and not answer.usage.quantities
    assert verdicts(answer) == [(INPUT, BLOCKED)]
    assert not web.seen


async def test_what_a_tool_is_sent_is_redacted_wherever_it_is(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(posting(web))
    arguments = json.dumps({"a": [{"b": MAIL}], "card": 4111111111111111, "n": 7}).replace(
        "@", "\\u0040"
    )
    answer = await adapters.call(
        name, arguments, guardrails=[guardrail(REDACT, personal_data=PERSONAL_DATA)]
    )
    sent = json.loads(web.seen[0]["body"])
    assert sent == {"a": [{"b": "write to [redacted]"}], "card": "[redacted]", "n": 7}
    assert verdicts(answer) == [(INPUT, REDACTED), (OUTPUT, PASSED)]


async def test_arguments_that_fit_no_more_once_they_are_redacted_are_not_sent(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    parameters = {"type": "object", "properties": {"card": {"type": "integer"}}}
    name = adapters.register(http_spec(f"{web.url}/echo/x", "POST", parameters=parameters))
    redact = guardrail(REDACT, personal_data=PERSONAL_DATA)
    answer = await adapters.call(name, {"card": 4111111111111111}, guardrails=[redact])
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert answer.unsent and not web.seen


async def test_what_a_tool_gives_is_blocked_and_charged(adapters: AdaptersUnderTest) -> None:
    name = adapters.register(calculator_spec())
    deny = guardrail_pb2.DenyList(patterns=["^4"])
    answer = await adapters.call(
        name, {"expression": "6 * 7"}, guardrails=[guardrail(BLOCK, deny=deny)]
    )
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
    assert verdicts(answer) == [(INPUT, PASSED), (OUTPUT, BLOCKED)]
    assert answer.usage.quantities and not answer.unsent


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ({"size": guardrail_pb2.SizeCheck(max_characters=1)}, FLAGGED),
        ({"size": guardrail_pb2.SizeCheck(max_characters=2)}, PASSED),
        ({"json_schema": guardrail_pb2.JsonSchemaCheck(schema_json='{"type": "string"}')}, FLAGGED),
        ({"json_schema": guardrail_pb2.JsonSchemaCheck(schema_json='{"maximum": 42}')}, PASSED),
    ],
)
async def test_size_and_form_of_a_result_are_checked(
    adapters: AdaptersUnderTest, check: dict[str, Any], verdict: int
) -> None:
    name = adapters.register(calculator_spec())
    flag = guardrail(FLAG, stages=[OUTPUT], **check)
    answer = await adapters.call(name, {"expression": "6 * 7"}, guardrails=[flag])
    assert answer.output.content == "42"
    assert verdicts(answer) == [(OUTPUT, verdict)]


async def streamed(
    adapters: AdaptersUnderTest, name: str, *guardrails: policy_pb2.Guardrail
) -> tuple[str, pb.InvokeResponse]:
    conversation = pb.Conversation()
    conversation.messages.add(role="user", content=MAIL)
    call = pb.InvokeRequest(
        key="episode/0/tool/0",
        episode_id="episode",
        tool_name=name,
        tool_version=1,
        model_alias="small",
        conversation=conversation,
        guardrails=guardrails,
    )
    text, response = "", pb.InvokeResponse()
    async for event in adapters.stub.InvokeStreaming(pb.InvokeStreamingRequest(call=call)):
        text += event.part.text
        if event.HasField("response"):
            response = event.response
    return text, response


ANSWER = "Ada is at ada@example.com, and Bob is at bob@example.com. " * 20
SHOWN = ANSWER.replace("ada@example.com", "[redacted]").replace("bob@example.com", "[redacted]")


async def test_a_streamed_answer_never_shows_what_is_redacted(adapters: AdaptersUnderTest) -> None:
    with OpenAiServer([Reply(ANSWER)], models=("small-model",)) as server:
        name = adapters.register(llm_spec(server.base_url))
        redact = guardrail(REDACT, personal_data=PERSONAL_DATA)
        text, response = await streamed(adapters, name, redact)
    assert response.output.content == SHOWN
    assert text and SHOWN.startswith(text)
    assert server.requests[0]["messages"][-1]["content"] == "write to [redacted]"


async def test_nothing_leaves_early_where_the_whole_answer_is_read(
    adapters: AdaptersUnderTest,
) -> None:
    with OpenAiServer([Reply(ANSWER)], models=("small-model",)) as server:
        name = adapters.register(llm_spec(server.base_url))
        block = guardrail(BLOCK, personal_data=PERSONAL_DATA, stages=[OUTPUT])
        text, response = await streamed(adapters, name, block)
    assert not text
    assert response.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
    assert response.usage.quantities


async def test_log_probabilities_do_not_repeat_what_is_redacted(
    adapters: AdaptersUnderTest,
) -> None:
    message = {"logprobs": {"content": [{"token": MAIL, "logprob": -0.1}]}}
    with OpenAiServer([Reply(MAIL, message=message)], models=("small-model",)) as server:
        name = adapters.register(llm_spec(server.base_url))
        _, response = await streamed(adapters, name, guardrail(REDACT, personal_data=PERSONAL_DATA))
    assert "example.com" not in response.SerializeToString().decode(errors="replace")


async def test_the_answer_of_an_episode_is_read(adapters: AdaptersUnderTest) -> None:
    request = pb.CheckAnswerRequest(
        episode_id="e", guardrails=[guardrail(REDACT, secrets={})], answer=f"sk-{'a' * 20} it is"
    )
    reply = await adapters.stub.CheckAnswer(request)
    assert reply.answer == "[redacted] it is"
    [decision] = reply.decisions
    assert decision.verdict == REDACTED and decision.reason == "1 credential"


async def test_a_server_decides_and_reads_what_it_decides_on(
    reaching: AdaptersUnderTest, guard: GuardrailServer, web: WebServer
) -> None:
    name = reaching.register(posting(web))
    answer = await reaching.call(
        name, {"text": "a tulip"}, guardrails=[server_guardrail(guard.url)]
    )
    assert answer.failure.message == "the guardrail guard blocked the call: it names a flower"
    assert not web.seen
    [asked] = guard.asked
    assert asked == {
        "guardrail": "guard",
        "stage": "input",
        "tool": "api",
        "model": "",
        "texts": ["a tulip"],
    }
    answer = await reaching.call(
        name, {"text": "a tulip"}, guardrails=[server_guardrail(guard.url, REDACT)]
    )
    assert json.loads(web.seen[0]["body"]) == {"text": "a #"}


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"status": 500}, "status 500"),
    ({"status": 302}, "status 302"),
    ({"reply": []}, 'lacks "flagged"'),
    ({"reply": {"flagged": "no"}}, 'lacks "flagged"'),
    ({"reply": {"flagged": True, "texts": []}}, "are not the 1 that were sent"),
    ({"reply": {"flagged": True, "texts": ["longer than a tulip"]}}, "are longer than"),
    ({"reply": {"flagged": True, "reason": 7}}, "is no text"),
    ({"stalls": True}, "no answer within 1 s"),
]


@pytest.mark.parametrize(("behaviour", "words"), BROKEN)
async def test_a_server_that_does_not_decide_blocks_unless_its_policy_lets_pass(
    reaching: AdaptersUnderTest,
    guard: GuardrailServer,
    web: WebServer,
    behaviour: dict[str, Any],
    words: str,
) -> None:
    for name, value in behaviour.items():
        setattr(guard, name, value)
    tool = reaching.register(posting(web))
    rule = guardrail_pb2.GUARDRAIL_ERROR_RULE_ALLOW
    closed = server_guardrail(guard.url, timeout_s=1)
    opened = server_guardrail(guard.url, timeout_s=1, on_error=rule)
    answer = await reaching.call(tool, {"text": "a tulip"}, guardrails=[closed])
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
    assert words in answer.failure.message and not web.seen
    answer = await reaching.call(tool, {"text": "a tulip"}, guardrails=[opened])
    assert len(web.seen) == 1
    assert verdicts(answer) == [(INPUT, FAILED), (OUTPUT, FAILED)]


async def test_a_server_at_an_address_that_is_not_public_is_not_asked(
    adapters: AdaptersUnderTest, guard: GuardrailServer
) -> None:
    # The tool may be reached: it is the operator's. The guardrail is the tenant's.
    name = adapters.register(calculator_spec())
    answer = await adapters.call(
        name, {"expression": "6 * 7"}, guardrails=[server_guardrail(guard.url)]
    )
    assert "address is not public" in answer.failure.message
    assert not guard.asked


async def test_an_effectful_call_is_made_once_and_shown_as_it_was_the_first_time(
    reaching: AdaptersUnderTest, guard: GuardrailServer, web: WebServer
) -> None:
    spec = posting(web)
    spec.side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    name = reaching.register(spec)
    fields = {"key": "episode/1/tool/0", "guardrails": [server_guardrail(guard.url, REDACT)]}
    first = await reaching.call(name, {"text": "a tulip"}, **fields)
    again = await reaching.call(name, {"text": "a tulip"}, **fields)
    assert first == again and len(web.seen) == 1
    assert len(guard.asked) == 2


async def test_functions_and_their_results_in_a_conversation_are_read(
    adapters: AdaptersUnderTest,
) -> None:
    call = orchestrator_pb.FunctionCall(id="1", name="f", arguments_json='{"to": "ada@b.com"}')
    conversation = pb.Conversation()
    conversation.messages.add(role="user", content="go")
    conversation.messages.add(role="assistant", function_calls=[call])
    conversation.messages.add(role="tool", call_id="1", content="bob@b.com has it")
    with OpenAiServer(["fine"], models=("small-model",)) as server:
        name = adapters.register(llm_spec(server.base_url))
        redact = guardrail(REDACT, personal_data=PERSONAL_DATA)
        await adapters.call(name, conversation=conversation, guardrails=[redact])
    sent = json.dumps(server.requests[0]["messages"])
    assert "b.com" not in sent and sent.count("*********") == 2

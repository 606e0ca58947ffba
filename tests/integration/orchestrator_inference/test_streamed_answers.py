import json
import threading
from typing import Any

import grpc
import pytest

from openai_server import OpenAiServer, Reply
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.rpc.status import domain_error_from

ANSWER = 'Ouagadougou, "Ouaga" \U0001f600\nis its capital.'
ACTION = {"thought": 'I know the "answer".', "answer": ANSWER}
# ASCII alone: the smile is two escapes.
REPLY = json.dumps(ACTION)
CALL = {"tool": "calculator", "arguments": {"answer": "6*7"}}
CALCULATOR = pb.ToolDefinition(name="calculator", parameters_json_schema='{"type": "object"}')
VLLM: dict[str, Any] = {"vllm_version": "0.32.0", "context_tokens": 8192}


def make_request(**changes: Any) -> pb.NextActionRequest:
    fields: dict[str, Any] = {"key": "e/1/model/0", "task": "Which?", "tools": [CALCULATOR]}
    return pb.NextActionRequest(**(fields | changes))


async def streamed(stub: Any, **changes: Any) -> tuple[list[str], pb.NextActionResponse]:
    request = pb.NextActionStreamingRequest(action=make_request(**changes))
    *parts, last = [event async for event in stub.NextActionStreaming(request)]
    return [part.answer_part for part in parts], last.response


async def test_the_first_words_come_before_the_engine_has_written_the_rest(
    start_service: Any,
) -> None:
    gate = threading.Event()
    gated = Reply(REPLY, gate=gate, gate_after=REPLY.index("gou, ") + 4)
    with OpenAiServer([gated], **VLLM) as engine:
        stub = await start_service(engine.base_url)
        request = pb.NextActionStreamingRequest(action=make_request())
        events = aiter(stub.NextActionStreaming(request))
        shown = ""
        while not shown.startswith("Ouagadougou"):
            shown += (await anext(events)).answer_part
        assert shown == "Ouagadougou"
        gate.set()
        rest = [event async for event in events]
    shown += "".join(event.answer_part for event in rest)
    assert shown == ANSWER == rest[-1].response.action.final_answer


async def test_a_streamed_reply_is_recorded_as_a_whole_one_is(start_service: Any) -> None:
    with OpenAiServer([REPLY, REPLY], **VLLM) as engine:
        stub = await start_service(engine.base_url)
        parts, response = await streamed(stub, sampling=pb.Sampling(seed=7))
        whole = await stub.NextAction(make_request(sampling=pb.Sampling(seed=7)))
        first, second = engine.requests
    assert "".join(parts) == ANSWER
    assert len(response.completion_logprobs) == len(response.completion_token_ids) > 0
    assert len(response.prompt_token_ids) > 0
    for each in (response, whole):
        each.ClearField("latency")
        each.usage.ClearField("provider_request_id")
    assert response == whole
    assert first.pop("stream")
    assert first.pop("stream_options") == {"include_usage": True}
    assert first == second


@pytest.mark.parametrize(
    ("reply", "changes"),
    [
        (CALL, {}),
        ({"answer": {"city": "x"}}, {"answer_json_schema": '{"type": "object"}'}),
        ("two", {"prompt_mode": pb.PROMPT_MODE_TEMPLATE}),
    ],
)
async def test_nothing_is_shown_that_may_not_be_the_answer(
    start_service: Any, reply: Any, changes: dict[str, Any]
) -> None:
    with OpenAiServer([reply], **VLLM) as engine:
        stub = await start_service(engine.base_url)
        parts, response = await streamed(stub, **changes)
        asked = engine.requests[0]
    assert not parts
    assert response.action.WhichOneof("decision") in {"tool_calls", "final_answer"}
    # It is asked for a stream only where there may be something to show.
    assert ("stream" in asked) == (not changes)


async def test_an_engine_without_a_grammar_shows_nothing(start_service: Any) -> None:
    with OpenAiServer([REPLY], json_schema=False) as engine:
        stub = await start_service(engine.base_url)
        parts, response = await streamed(stub)
    assert (parts, response.action.final_answer) == ([], ANSWER)


async def test_an_engine_that_streams_nothing_answers_whole(start_service: Any) -> None:
    body = {"choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}]}
    whole = Reply(raw_body=json.dumps(body).encode(), headers={"content-type": "application/json"})
    with OpenAiServer([whole]) as engine:
        stub = await start_service(engine.base_url)
        parts, response = await streamed(stub)
    assert (parts, response.action.final_answer) == ([], ANSWER)


def broken(event: str) -> Reply:
    headers = {"content-type": "text/event-stream"}
    return Reply(raw_body=f"data: {event}\n\n".encode(), headers=headers)


@pytest.mark.parametrize(
    ("reply", "code", "reason"),
    [
        (Reply(REPLY, cut_after=40), grpc.StatusCode.UNAVAILABLE, "ENGINE_UNREACHABLE"),
        (broken('{"choices": []}'), grpc.StatusCode.UNAVAILABLE, "ENGINE_UNREACHABLE"),
        (
            broken('{"error": {"code": 503, "message": "no"}}'),
            grpc.StatusCode.UNAVAILABLE,
            "ENGINE_UNWELL",
        ),
        (broken("<p>"), grpc.StatusCode.FAILED_PRECONDITION, "ENGINE_PROTOCOL_ERROR"),
        (
            broken('{"choices": ["x"]}'),
            grpc.StatusCode.FAILED_PRECONDITION,
            "ENGINE_PROTOCOL_ERROR",
        ),
    ],
)
async def test_a_stream_that_breaks_off_is_an_error(
    start_service: Any, reply: Reply, code: grpc.StatusCode, reason: str
) -> None:
    # The channel tries again what broke off before anything was shown.
    with OpenAiServer([reply] * 10) as engine:
        stub = await start_service(engine.base_url)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await streamed(stub)
    assert (caught.value.code(), domain_error_from(caught.value).reason) == (code, reason)


async def test_a_caller_that_leaves_ends_the_engines_work(start_service: Any) -> None:
    with OpenAiServer([Reply(REPLY, gate=threading.Event(), gate_after=60)]) as engine:
        stub = await start_service(engine.base_url)
        request = pb.NextActionStreamingRequest(action=make_request())
        call = stub.NextActionStreaming(request)
        await anext(aiter(call))
        call.cancel()
        await engine.until(lambda: engine.disconnects == 1)

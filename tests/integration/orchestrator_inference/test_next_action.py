import asyncio
import json
from typing import Any

import grpc
import pytest

from callers import make_identity
from openai_server import OpenAiServer, Reply
from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import policy_pb2, toolset_pb2
from podium_kit.rpc.status import domain_error_from

CALL = {"tool": "calculator", "arguments": {"expression": "6*7"}}
CALCULATOR = pb.ToolDefinition(
    name="calculator",
    description="Evaluates arithmetic.",
    parameters_json_schema=json.dumps(
        {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        }
    ),
)


def make_request(task: str = "What is 6*7?", **changes: Any) -> pb.NextActionRequest:
    fields: dict[str, Any] = {"key": "episode/1/model/0", "task": task, "tools": [CALCULATOR]}
    return pb.NextActionRequest(**(fields | changes))


async def rejected(awaitable: Any) -> tuple[grpc.StatusCode, str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    error = domain_error_from(caught.value)
    return caught.value.code(), error.reason, error.message


async def test_a_tool_call_comes_back_parsed(start_service: Any) -> None:
    with OpenAiServer([CALL]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    (call,) = response.action.tool_calls.calls
    assert (call.index, call.tool_name, call.arguments_json) == (
        0,
        "calculator",
        '{"expression":"6*7"}',
    )
    assert response.completion_text == json.dumps(CALL)
    assert response.finish_reason == "stop"
    assert response.model_version == "scripted-model"
    assert response.latency.ToNanoseconds() > 0


async def test_the_line_of_weights_is_returned_as_the_prompt_states_it(start_service: Any) -> None:
    weights = policy_pb2.PreferenceVector(outcome=1, compute=0.5, latency=0)
    cheap, expensive = (
        toolset_pb2.CallEstimate(
            model_alias=alias, cost=money_pb2.Money(currency_code="USD", amount=amount)
        )
        for alias, amount in (("small", "0.01"), ("large", "1"))
    )
    ask = pb.ToolDefinition(
        name="ask_llm",
        parameters_json_schema='{"type": "object", "properties": {}}',
        estimates=[cheap, expensive],
    )
    with OpenAiServer() as engine:
        stub = await start_service(engine.base_url)
        weighed = await stub.NextAction(make_request(tools=[ask], preferences=weights))
        prompt = engine.requests[0]["messages"][-1]["content"]
        plain = await stub.NextAction(make_request())
    assert "A right answer is worth, of 10: small 10, large 7." in weighed.preference_line
    assert weighed.preference_line in prompt
    assert not plain.preference_line


async def test_without_a_script_the_schema_alone_makes_valid_actions(start_service: Any) -> None:
    with OpenAiServer() as engine:
        stub = await start_service(engine.base_url)
        call = await stub.NextAction(make_request())
        answer = await stub.NextAction(make_request(must_answer=True))
    assert call.action.WhichOneof("decision") == "tool_calls"
    assert answer.action.final_answer == "x"


async def test_the_reply_says_how_it_was_constrained_and_sampled(start_service: Any) -> None:
    with OpenAiServer() as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request(sampling=pb.Sampling(seed=7)))
        body = engine.requests[0]
    schema = body["response_format"]["json_schema"]["schema"]
    assert json.loads(response.constraint_json_schema) == schema
    assert len(response.constraint_digest) == 64
    assert response.sampling == pb.Sampling(temperature=0, top_p=1, seed=7, max_tokens=512)
    assert (body["temperature"], body["top_p"], body["seed"], body["max_tokens"]) == (0, 1, 7, 512)
    assert engine.headers[0]["x-request-id"] == "episode/1/model/0"


async def test_vllm_gives_token_ids_and_logprobs_as_sampled(start_service: Any) -> None:
    with OpenAiServer([CALL], vllm_version="0.32.0", context_tokens=8192) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    ids = list(json.dumps(CALL).encode())
    assert list(response.completion_token_ids) == ids
    assert list(response.completion_logprobs) == pytest.approx([-one / 256 for one in ids])
    assert len(response.prompt_token_ids) > 0
    assert response.engine == "vllm/0.32.0"


async def test_other_engines_are_not_asked_for_what_only_vllm_knows(start_service: Any) -> None:
    with OpenAiServer([CALL]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    assert engine.requests[0].keys().isdisjoint({"return_token_ids", "logprobs"})
    assert response.engine == "openai-compatible"


async def test_an_engine_that_rejects_the_schema_answers_unconstrained(start_service: Any) -> None:
    with OpenAiServer([CALL, "no idea"], json_schema=False) as engine:
        stub = await start_service(engine.base_url)
        first = await stub.NextAction(make_request())
        second = await stub.NextAction(make_request())
    assert first.action.WhichOneof("decision") == "tool_calls"
    assert first.engine == "openai-compatible (unconstrained)"
    assert (first.constraint_digest, first.constraint_json_schema) == ("", "")
    assert second.action.malformed.kind == failure_pb2.FAILURE_KIND_MALFORMED_ACTION
    # Rejected once, remembered after that.
    assert ["response_format" in body for body in engine.requests] == [True, False, False]


async def test_an_engine_that_renamed_max_tokens_is_asked_with_the_new_name(
    start_service: Any,
) -> None:
    rejection = Reply("Use 'max_completion_tokens' instead.", 400, error={"param": "max_tokens"})
    with OpenAiServer([rejection, CALL]) as engine:
        stub = await start_service(engine.base_url)
        await stub.NextAction(make_request())
    assert engine.requests[1]["max_completion_tokens"] == 512
    assert "max_tokens" not in engine.requests[1]


async def test_native_tool_calls_of_an_engine_are_accepted(start_service: Any) -> None:
    function = {"name": "calculator", "arguments": '{"expression":"6*7"}'}
    reply = Reply("", message={"tool_calls": [{"id": "call_1", "function": function}]})
    with OpenAiServer([reply]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    assert response.action.tool_calls.calls[0].model_call_id == "call_1"


@pytest.mark.parametrize(
    ("model", "changes", "request_", "calls_max"),
    [
        ("scripted-model", {}, 0, 1),
        ("scripted-model", {}, 2, 2),
        ("scripted-model", {"parallel_calls_max": 2}, 8, 2),
        ("Qwen3-8B", {}, 0, 4),
        ("Qwen3-8B", {}, 1, 1),
        ("Qwen3-8B", {"parallel_calls_max": 3}, 0, 3),
    ],
)
async def test_a_turn_has_as_many_calls_as_request_model_and_operator_allow(
    start_service: Any, model: str, changes: dict[str, Any], request_: int, calls_max: int
) -> None:
    replies = [{"calls": [CALL] * count} for count in (calls_max, calls_max + 1)]
    with OpenAiServer(replies, models=[model]) as engine:
        stub = await start_service(engine.base_url, **changes)
        fits, exceeds = [
            (await stub.NextAction(make_request(parallel_calls=request_))).action for _ in replies
        ]
    indexes = [call.index for call in fits.tool_calls.calls]
    assert indexes == list(range(calls_max))
    assert f"at most {calls_max} are allowed" in exceeds.malformed.message
    body = engine.requests[0]
    shown, schema = body["messages"][0]["content"], json.dumps(body["response_format"])
    assert (f"at most {calls_max} independent tools" in shown) is (calls_max > 1)
    assert (f'"maxItems": {calls_max}' in schema) is (calls_max > 1)


async def test_vllm_names_the_model_that_it_serves_under_another_name(start_service: Any) -> None:
    with OpenAiServer(
        [{"calls": [CALL, CALL]}], vllm_version="0.32.0", root="/models/Nemotron-Orchestrator-8B"
    ) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    assert len(response.action.tool_calls.calls) == 2


async def test_usage_is_split_into_disjoint_quantities(start_service: Any) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 10},
    }
    with OpenAiServer([Reply(json.dumps(CALL), usage=usage)]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    amounts = {
        usage_pb2.UsageDimension.Name(entry.dimension): entry.amount
        for entry in response.usage.quantities
    }
    assert amounts == {
        "USAGE_DIMENSION_INPUT_FRESH": "36",
        "USAGE_DIMENSION_CACHE_READ": "64",
        "USAGE_DIMENSION_OUTPUT_TEXT": "20",
        "USAGE_DIMENSION_REASONING": "10",
    }
    assert response.usage.source == usage_pb2.USAGE_SOURCE_PROVIDER


async def test_a_cut_reply_is_malformed_and_the_next_grammar_bounds_code_too(
    start_service: Any,
) -> None:
    python = pb.ToolDefinition(
        name="python",
        parameters_json_schema='{"type":"object","properties":{"code":{"type":"string"}}}',
        section=pb.RESULT_SECTION_CODE,
    )
    with OpenAiServer([Reply('{"tool":"python","ar', finish_reason="length")]) as engine:
        stub = await start_service(engine.base_url)
        first = await stub.NextAction(make_request(tools=[python]))
        turn = pb.PastTurn(completion_text=first.completion_text, action=first.action)
        second = await stub.NextAction(make_request(tools=[python], turns=[turn]))
    assert "cut at the token limit" in first.action.malformed.message
    assert first.constraint_digest != second.constraint_digest
    assert "cut at the token limit" in engine.requests[1]["messages"][1]["content"]


async def test_a_prompt_the_engine_finds_too_long_is_shortened_once(start_service: Any) -> None:
    call = pb.ToolCall(tool_name="calculator", arguments_json="{}")
    turn = pb.PastTurn(observations=[pb.Observation(call=call, content="word " * 20_000)])
    with OpenAiServer(context_tokens=9_000) as engine:
        tight = {"prompt": {"prompt_tokens_max": 100_000, "attempts_tokens_max": 100_000}}
        stub = await start_service(engine.base_url, **tight)
        too_long = Reply("context length exceeded", 400, error={"code": "context_length_exceeded"})
        engine.push(too_long)
        response = await stub.NextAction(make_request(turns=[turn]))
    assert response.action.WhichOneof("decision") == "tool_calls"
    first, second = (len(body["messages"][1]["content"]) for body in engine.requests)
    assert second < first * 0.6


async def test_a_prompt_that_cannot_be_shortened_is_rejected(start_service: Any) -> None:
    too_long = Reply("maximum context length is 10 tokens", 400)
    with OpenAiServer([too_long] * 2) as engine:
        stub = await start_service(engine.base_url)
        code, reason, message = await rejected(stub.NextAction(make_request()))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CONTEXT_TOO_LONG")
    assert "maximum context length" in message


@pytest.mark.parametrize(
    ("reply", "code", "reason"),
    [
        (Reply("slow down", 429), "RESOURCE_EXHAUSTED", "ENGINE_RATE_LIMITED"),
        (Reply("bad seed", 400), "FAILED_PRECONDITION", "ENGINE_REJECTED"),
        (Reply("no", 403), "FAILED_PRECONDITION", "ENGINE_CREDENTIALS_REJECTED"),
        (Reply(raw_body=b"<html>"), "FAILED_PRECONDITION", "ENGINE_PROTOCOL_ERROR"),
        (Reply(raw_body=b'{"choices": []}'), "FAILED_PRECONDITION", "ENGINE_PROTOCOL_ERROR"),
        (Reply(raw_body=b"[]"), "FAILED_PRECONDITION", "ENGINE_PROTOCOL_ERROR"),
    ],
)
async def test_engine_faults_are_typed(
    start_service: Any, reply: Reply, code: str, reason: str
) -> None:
    with OpenAiServer([reply]) as engine:
        stub = await start_service(engine.base_url)
        assert (await rejected(stub.NextAction(make_request())))[:2] == (
            grpc.StatusCode[code],
            reason,
        )


async def test_a_fault_of_the_engine_itself_is_retried_by_the_channel(start_service: Any) -> None:
    with OpenAiServer([Reply("loading", 503), CALL]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request())
    assert response.action.WhichOneof("decision") == "tool_calls"
    assert len(engine.requests) == 2


async def test_the_wait_an_engine_asks_for_is_passed_on(start_service: Any) -> None:
    with OpenAiServer([Reply("slow down", 429, {"retry-after": "7"})]) as engine:
        stub = await start_service(engine.base_url)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.NextAction(make_request())
    assert domain_error_from(caught.value).metadata["retry_after_s"] == "7.0"


async def test_an_unreachable_engine_is_named_and_why(start_service: Any) -> None:
    with OpenAiServer() as engine:
        base_url = engine.base_url
    stub = await start_service(base_url)
    code, reason, message = await rejected(stub.NextAction(make_request()))
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "ENGINE_UNREACHABLE")
    assert base_url.removeprefix("http://").removesuffix("/v1") in message
    assert "does not answer (Connection refused)" in message


async def test_a_rejected_key_is_never_quoted(start_service: Any) -> None:
    with OpenAiServer(api_key="right") as engine:
        stub = await start_service(engine.base_url, engine_api_key="sk-wrong")
        _, reason, message = await rejected(stub.NextAction(make_request()))
    assert reason == "ENGINE_CREDENTIALS_REJECTED"
    assert "sk-wrong" not in message
    assert "ORCHESTRATOR_INFERENCE_ENGINE_API_KEY" in message


async def test_the_configured_key_is_sent(start_service: Any) -> None:
    with OpenAiServer([CALL], api_key="right") as engine:
        stub = await start_service(engine.base_url, engine_api_key="right")
        await stub.NextAction(make_request())
    assert len(engine.requests) == 1


async def test_a_slow_engine_times_out(start_service: Any) -> None:
    with OpenAiServer(delay_s=30) as engine:
        stub = await start_service(engine.base_url, engine_timeout_s=0.2)
        code, reason, _ = await rejected(stub.NextAction(make_request()))
    assert (code, reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "ENGINE_TIMED_OUT")


async def test_a_cancelled_call_hangs_up_on_the_engine(start_service: Any) -> None:
    with OpenAiServer(delay_s=60) as engine:
        stub = await start_service(engine.base_url)
        call = stub.NextAction(make_request())
        waiting = asyncio.ensure_future(call)
        await engine.until(lambda: len(engine.requests) == 1)
        waiting.cancel()
        await engine.until(lambda: engine.disconnects == 1)
    assert engine.disconnects == 1


async def test_no_more_calls_than_allowed_reach_the_engine_and_all_are_answered(
    start_service: Any,
) -> None:
    with OpenAiServer(delay_s=0.05) as engine:
        stub = await start_service(engine.base_url, max_in_flight=4)
        calls = [stub.NextAction(make_request(f"task {number}")) for number in range(16)]
        await asyncio.gather(*calls)
    assert engine.in_flight_max <= 4
    assert len(engine.requests) == 16


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"task": " "}, "EMPTY_TASK", "task is empty"),
        ({"key": ""}, "INVALID_ARGUMENT", "key is unset"),
        ({"tools": [CALCULATOR] * 2}, "DUPLICATE_TOOL", "calculator is listed twice"),
        ({"sampling": pb.Sampling(temperature=-1)}, "OUT_OF_BOUNDS", "temperature is -1"),
        ({"sampling": pb.Sampling(top_p=0)}, "INVALID_SAMPLING", "top_p is 0.0"),
        ({"sampling": pb.Sampling(max_tokens=-1)}, "OUT_OF_BOUNDS", "max_tokens is -1"),
        ({"history": [pb.ConversationMessage(role="robot")]}, "OUT_OF_BOUNDS", "'robot'"),
        (
            {"tools": [pb.ToolDefinition(name="t", parameters_json_schema="{")]},
            "INVALID_TOOL_SCHEMA",
            "parameters of tool t: not JSON",
        ),
    ],
)
async def test_a_wrong_request_is_rejected_before_the_engine_is_asked(
    start_service: Any, changes: dict[str, Any], reason: str, words: str
) -> None:
    with OpenAiServer() as engine:
        stub = await start_service(engine.base_url)
        code, given, message = await rejected(stub.NextAction(make_request(**changes)))
    assert (code, given) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert words in message
    assert engine.requests == []


async def test_an_unknown_model_is_rejected_with_those_that_are_served(start_service: Any) -> None:
    with OpenAiServer(models=["a", "b"]) as engine:
        stub = await start_service(engine.base_url)
        code, reason, message = await rejected(stub.NextAction(make_request(model="c")))
    assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
    assert message == "no orchestrator model 'c'; the engine serves a, b"


async def test_a_caller_who_may_not_run_episodes_is_rejected(start_service: Any) -> None:
    with OpenAiServer() as engine:
        without_scopes = make_identity(scopes=())
        stub = await start_service(engine.base_url, identity=without_scopes)
        code, _, message = await rejected(stub.NextAction(make_request()))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "episodes:run" in message


async def test_vllm_counts_the_prompt_that_the_next_action_has(start_service: Any) -> None:
    with OpenAiServer([CALL], vllm_version="0.32.0") as engine:
        stub = await start_service(engine.base_url)
        counted = await stub.CountTokens(pb.CountTokensRequest(action=make_request()))
        used = (await stub.NextAction(make_request())).usage
    [prompt] = [
        each.amount
        for each in used.quantities
        if each.dimension == usage_pb2.USAGE_DIMENSION_INPUT_FRESH
    ]
    assert counted.token_count == int(prompt) > 50


async def test_another_engine_cannot_count(start_service: Any) -> None:
    with OpenAiServer() as engine:
        stub = await start_service(engine.base_url)
        code, reason, message = await rejected(
            stub.CountTokens(pb.CountTokensRequest(action=make_request()))
        )
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TOKENS_NOT_COUNTED")
    assert "only vLLM counts" in message

from typing import Any

import grpc
import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import calculator_spec, llm_spec, tool_limits
from integration.tool_adapters.web_server import WebServer
from openai_server import OpenAiServer, Reply, Scripted
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2, usage_pb2

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 25},
}


def serving(*replies: Scripted, **settings: Any) -> OpenAiServer:
    return OpenAiServer(replies, models=("small-model", "large-model"), **settings)


def counted(answer: pb.InvokeResponse) -> dict[str, int]:
    names = usage_pb2.UsageDimension.Name
    return {
        names(entry.dimension).removeprefix("USAGE_DIMENSION_"): int(entry.amount)
        for entry in answer.usage.quantities
    }


async def test_the_model_is_asked_about_findings_and_task(adapters: AdaptersUnderTest) -> None:
    with serving("42") as server:
        spec = llm_spec(server.base_url, llm={"system_prompt": "Be brief.", "temperature": 0})
        answer = await adapters.call(
            adapters.register(spec), {"model": "large"}, task="6 * 7?", context="It is even."
        )
    assert answer.output.content == "42"
    assert answer.sku == "large-sku"
    asked = server.requests[0]
    assert asked["model"] == "large-model"
    assert asked["temperature"] == 0
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    content = asked["messages"][1]["content"]
    assert content.index("It is even.") < content.index("6 * 7?")


async def test_a_modelled_latency_counts_instead_of_the_measured_one(
    adapters: AdaptersUnderTest,
) -> None:
    refused = Reply(status=400)
    with serving("42", refused, "43") as server:
        spec = llm_spec(server.base_url)
        spec.connection.llm.models[1].modelled_latency.FromSeconds(600)
        tool = adapters.register(spec)
        modelled = await adapters.call(tool, {"model": "large"})
        failed = await adapters.call(tool, {"model": "large"})
        measured = await adapters.call(tool, {"model": "small"})
    assert (modelled.latency.ToSeconds(), modelled.latency_modelled) == (600, True)
    assert failed.HasField("failure")
    for answer in (failed, measured):
        assert not answer.latency_modelled
        assert 0 < answer.latency.ToNanoseconds() < 600_000_000_000


async def test_a_tool_without_arguments_of_its_own_takes_the_model(
    adapters: AdaptersUnderTest,
) -> None:
    with serving("42") as server:
        spec = llm_spec(server.base_url)
        spec.parameters_json_schema = '{"type": "object", "additionalProperties": false}'
        tool = adapters.register(spec)
        answer = await adapters.call(tool, {"model": "large"})
        unknown = await adapters.call(tool, {"model": "largest"})
    assert answer.output.content == "42"
    assert unknown.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert "'largest' is not one of ['small', 'large']" in unknown.failure.message


async def test_usage_is_the_providers_in_disjoint_quantities(adapters: AdaptersUnderTest) -> None:
    with serving(Reply("42", usage=USAGE)) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert counted(answer) == {
        "INPUT_FRESH": 70,
        "CACHE_READ": 30,
        "OUTPUT_TEXT": 15,
        "REASONING": 25,
    }
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_PROVIDER
    assert answer.usage.provider_request_id


async def test_without_a_report_usage_is_an_estimate(adapters: AdaptersUnderTest) -> None:
    reply = Reply(raw_body=b'{"choices": [{"message": {"content": "12345678"}}]}')
    with serving(reply) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)), task="why?")
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    assert counted(answer)["OUTPUT_TEXT"] == 2


async def test_a_rate_limit_is_waited_for_and_then_answered(adapters: AdaptersUnderTest) -> None:
    with serving(Reply(status=429, headers={"retry-after": "0.2"}), "42") as server:
        spec = llm_spec(server.base_url, limits=tool_limits(attempts=2))
        answer = await adapters.call(adapters.register(spec))
    assert answer.output.content == "42"
    assert answer.attempts == 2
    assert answer.latency.ToNanoseconds() >= 200_000_000


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (Reply(status=401), failure_pb2.FAILURE_KIND_PERMISSION_DENIED, "401"),
        (Reply(status=503), failure_pb2.FAILURE_KIND_UNAVAILABLE, "503"),
        (Reply(raw_body=b"<html>"), failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT, "its API"),
        (Reply(raw_body=b'{"choices": []}'), failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT, "its API"),
        (
            Reply("", finish_reason="length"),
            failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT,
            "more output tokens",
        ),
        (
            Reply("", finish_reason="content_filter"),
            failure_pb2.FAILURE_KIND_TOOL_ERROR,
            "content_filter",
        ),
    ],
)
async def test_a_reply_that_is_no_answer_says_why(
    adapters: AdaptersUnderTest,
    reply: Reply,
    kind: failure_pb2.FailureKind.ValueType,
    words: str,
) -> None:
    with serving(reply) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == kind
    assert words in answer.failure.message


async def test_a_call_that_was_cut_off_is_charged_an_estimate_at_its_models_price(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(delay_s=3600) as server:
        spec = llm_spec(server.base_url, limits=tool_limits(timeout_s=0.3))
        answer = await adapters.call(adapters.register(spec), {"model": "large"}, task="why? " * 8)
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    assert counted(answer)["INPUT_FRESH"] >= 10
    assert "OUTPUT_TEXT" not in counted(answer)
    assert answer.sku == "large-sku"


async def test_the_smaller_limit_of_output_tokens_counts(adapters: AdaptersUnderTest) -> None:
    with serving("1", "2") as server:
        name = adapters.register(llm_spec(server.base_url, llm={"max_output_tokens": 100}))
        await adapters.call(name, max_output_tokens=20)
        await adapters.call(name, max_output_tokens=500)
    assert [asked["max_tokens"] for asked in server.requests] == [20, 100]


async def test_a_key_is_sent_and_a_wrong_one_is_rejected_without_naming_it(
    adapters: AdaptersUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_LLM", "sk-right-key")
    with serving("42", "43", api_key="sk-right-key") as server:
        name = adapters.register(llm_spec(server.base_url, secret="llm"))
        answer = await adapters.call(name)
        monkeypatch.setenv("TOOL_ADAPTERS_SECRET_LLM", "sk-wrong-key")
        rejected = await adapters.call(name)
    assert answer.output.content == "42"
    assert rejected.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "sk-" not in rejected.failure.message


async def test_anthropic_gets_its_own_request_format(
    adapters: AdaptersUnderTest, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_LLM", "sk-ant-key")
    spec = llm_spec(f"{web.url}/v1", "ANTHROPIC_MESSAGES", secret="llm")
    answer = await adapters.call(adapters.register(spec), task="6 * 7?")
    asked = web.seen[0]
    assert asked["path"] == "/v1/messages"
    assert asked["headers"]["x-api-key"] == "sk-ant-key"
    assert asked["headers"]["anthropic-version"] == "2023-06-01"
    assert '"max_tokens": 1024' in asked["body"]
    assert '"stream": true' in asked["body"]
    # The server only repeats what it was sent, which is no answer of this API.
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT


SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": "6 * 7?"},
]


async def test_a_conversation_goes_to_the_model_as_it_is(adapters: AdaptersUnderTest) -> None:
    with serving("42", Reply("", finish_reason="length")) as server:
        spec = llm_spec(server.base_url, llm={"system_prompt": "Speak Latin.", "temperature": 0})
        tool = adapters.register(spec)
        told: Any = {"conversation": {"messages": SAID, "temperature": 0.5, "top_p": 0.9}}
        answer = await adapters.call(tool, {"model": "large"}, max_output_tokens=9, **told)
        cut = await adapters.call(tool, {"model": "large"}, conversation={"messages": SAID})
    assert (answer.output.content, answer.finish_reason) == ("42", "stop")
    asked, other = server.requests
    assert asked["messages"] == [{"role": "system", "content": "Speak Latin."}, *SAID]
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"]) == (0.5, 0.9, 9)
    assert (other["temperature"], "top_p" in other) == (0, False)
    # Who speaks to a model directly is shown that it wrote nothing, and why.
    assert (cut.HasField("output"), cut.finish_reason) == (True, "length")


async def test_a_prompt_that_is_too_long_is_its_own_kind_of_failure(
    adapters: AdaptersUnderTest,
) -> None:
    fault = {"code": "context_length_exceeded"}
    with serving(Reply("too many", 400, error=fault), Reply("no", 400)) as server:
        tool = adapters.register(llm_spec(server.base_url))
        answers = [await adapters.call(tool, {"model": "small"}, task="x") for _ in range(2)]
    assert [answer.failure.kind for answer in answers] == [
        failure_pb2.FAILURE_KIND_CONTEXT_TOO_LONG,
        failure_pb2.FAILURE_KIND_TOOL_ERROR,
    ]


async def test_a_call_states_one_model_of_several(adapters: AdaptersUnderTest) -> None:
    with serving(Reply("4")) as server:
        tool = adapters.register(llm_spec(server.base_url))
        for arguments in ({}, {"model": ["large"]}, {"model": None}, {"model": ""}):
            answer = await adapters.call(tool, arguments, model_alias="", task="x")
            assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
            assert answer.attempts == 0
        wrong: list[dict[str, Any]] = [
            {"arguments": {}, "model_alias": "dear"},
            {"arguments": {"model": "large"}, "model_alias": "small"},
            {"arguments": {}, "model_alias": "", "conversation": {"messages": SAID}},
        ]
        for fields in wrong:
            with pytest.raises(grpc.aio.AioRpcError, match="state one of small, large"):
                await adapters.call(tool, **fields)
        assert not server.requests
        answer = await adapters.call(tool, {}, model_alias="large", task="x")
    assert (answer.model_alias, answer.sku) == ("large", "large-sku")


async def test_only_language_models_take_a_conversation(adapters: AdaptersUnderTest) -> None:
    tool = adapters.register(calculator_spec())
    with pytest.raises(grpc.aio.AioRpcError, match="is no language model"):
        await adapters.call(tool, conversation={"messages": SAID})
    with serving() as server:
        expert = adapters.register(llm_spec(server.base_url))
        with pytest.raises(grpc.aio.AioRpcError, match=r"conversation\.messages is empty"):
            await adapters.call(expert, conversation={})

import asyncio
import base64
from decimal import Decimal
from typing import Any

import grpc
import pytest

from builders.media_files import attached, data_url, make_image, make_pdf
from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.servers import AnthropicServer, WebServer, started, stopped, wrote
from integration.tool_adapters.tool_specs import calculator_spec, llm_spec, tool_limits
from openai_server import OpenAiServer, Reply, Scripted
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2, usage_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2
from podium_kit.attachments import IMAGE_TOKENS

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 25},
}


def serving(*replies: Scripted, **settings: Any) -> OpenAiServer:
    return OpenAiServer(replies, models=("small-model", "large-model"), **settings)


def counted(answer: pb.InvokeResponse) -> dict[str, Decimal]:
    names = usage_pb2.UsageDimension.Name
    return {
        names(entry.dimension).removeprefix("USAGE_DIMENSION_"): Decimal(entry.amount)
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


async def test_a_delegate_reads_the_tools_that_it_may_call(adapters: AdaptersUnderTest) -> None:
    offered = orchestrator_pb.ToolDefinition(
        name="calculator", description="Works out.", parameters_json_schema='{"type": "object"}'
    )
    with serving("42") as server:
        spec = llm_spec(server.base_url, llm={"role": tool_pb2.LLM_ROLE_DELEGATE})
        await adapters.call(
            adapters.register(spec), {"model": "large"}, task="6 * 7?", offered_tools=[offered]
        )
    system, question = (message["content"] for message in server.requests[0]["messages"])
    assert '<tool_call>{"name"' in system
    assert '- calculator: Works out. Arguments: {"type": "object"}' in question


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


ANTHROPIC = "ANTHROPIC_MESSAGES"


async def test_a_streamed_message_is_put_together_with_its_last_totals(
    adapters: AdaptersUnderTest,
) -> None:
    usage = started(input_tokens=20, output_tokens=1, cache_read_input_tokens=5)
    events = [usage, {"type": "ping"}, wrote("4"), wrote("2"), stopped(output_tokens=7)]
    async with AnthropicServer(events) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url, ANTHROPIC)))
    assert answer.output.content == "42"
    assert counted(answer) == {"INPUT_FRESH": 20, "CACHE_READ": 5, "OUTPUT_TEXT": 7}
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_PROVIDER
    assert answer.model_alias == "small"


@pytest.mark.parametrize("ending", ["cut", "end"])
async def test_a_stream_cut_in_the_middle_keeps_its_text_and_its_reported_usage(
    adapters: AdaptersUnderTest, ending: str
) -> None:
    events = [started(input_tokens=20, output_tokens=1), wrote("a long beginning of an answer")]
    async with AnthropicServer(events, ending) as server:
        spec = llm_spec(server.base_url, ANTHROPIC, limits=tool_limits(attempts=3))
        answer = await adapters.call(adapters.register(spec))
    assert "a long beginning" in answer.failure.message
    assert counted(answer) == {"INPUT_FRESH": 20, "OUTPUT_TEXT": 8}
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    # What was paid for is not bought again by itself.
    assert answer.attempts == 1


async def test_a_stream_that_stops_coming_is_charged_for_what_came(
    adapters: AdaptersUnderTest,
) -> None:
    events = [started(input_tokens=20, output_tokens=1), wrote("a long beginning of an answer")]
    async with AnthropicServer(events, "hang") as server:
        spec = llm_spec(server.base_url, ANTHROPIC, limits=tool_limits(timeout_s=0.5))
        answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert "a long beginning" in answer.failure.message
    assert counted(answer) == {"INPUT_FRESH": 20, "OUTPUT_TEXT": 8}


async def test_an_error_in_the_stream_is_what_its_status_would_have_been(
    adapters: AdaptersUnderTest,
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with AnthropicServer([started(input_tokens=20), error]) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url, ANTHROPIC)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "Overloaded" in answer.failure.message
    assert answer.attempts == 1


async def test_an_openai_stream_cut_in_the_middle_is_charged_an_estimate(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(Reply("a long beginning of an answer", cut_after=16)) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "a long beginning" in answer.failure.message
    assert counted(answer)["OUTPUT_TEXT"] == 4


async def test_the_next_allowed_model_answers_under_its_own_name_and_price(
    adapters: AdaptersUnderTest,
) -> None:
    overloaded = Reply(status=503)
    with serving(overloaded, "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        answer = await adapters.call(name, {"model": "small"}, fallback_models=["small", "large"])
    assert answer.output.content == "42"
    assert (answer.model_alias, answer.sku) == ("large", "large-sku")
    assert [asked["model"] for asked in server.requests] == ["small-model", "large-model"]


async def test_without_permission_no_other_model_answers(adapters: AdaptersUnderTest) -> None:
    with serving(Reply(status=503), "42") as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert (answer.model_alias, answer.sku) == ("small", "small-sku")


async def test_a_model_that_wrote_something_is_not_replaced(adapters: AdaptersUnderTest) -> None:
    with serving(Reply("half of it", cut_after=4), "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        answer = await adapters.call(name, fallback_models=["large"])
    assert answer.model_alias == "small"
    assert len(server.requests) == 1


async def test_a_model_left_alone_by_its_breaker_is_replaced_at_once(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(*[Reply(status=503)] * 5, "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        for _ in range(5):
            await adapters.call(name)
        answer = await adapters.call(name, fallback_models=["large"])
    assert answer.model_alias == "large"
    assert len(server.requests) == 6


async def test_tools_share_the_places_at_their_provider(narrow: AdaptersUnderTest) -> None:
    with serving(delay_s=0.1) as server:
        names = []
        for number in range(3):
            spec = llm_spec(server.base_url)
            spec.name = f"expert-{number}"
            names.append(narrow.register(spec))
        answers = await asyncio.gather(*(narrow.call(name) for name in names * 2))
    assert [answer.output.content for answer in answers] == ["ok"] * 6
    assert server.in_flight_max <= 2


async def test_every_role_has_its_own_prompt_and_a_tool_may_have_another(
    adapters: AdaptersUnderTest,
) -> None:
    with serving() as server:
        for role in (tool_pb2.LLM_ROLE_GENERALIST, tool_pb2.LLM_ROLE_JUDGE):
            spec = llm_spec(server.base_url, llm={"role": role})
            spec.name = f"expert-{role}"
            await adapters.call(adapters.register(spec), {"prompt": "Right?"}, task="6 * 7?")
    generalist, judge = ([m["content"] for m in asked["messages"]] for asked in server.requests)
    assert "expert" in generalist[0]
    assert "verdict" in judge[0]
    assert generalist[1] == "Task:\n6 * 7?\n\nRight?"


RED, BLUE, PDF = make_image(), make_image(colour="blue", kind="JPEG"), make_pdf()
FIRST, SECOND, THIRD = "[image 1: red]", "[image 2: blue]", "[PDF 3: plan.pdf]"
FILES = [
    attached(FIRST, RED),
    attached(SECOND, BLUE, "image/jpeg"),
    attached(THIRD, PDF, "application/pdf", "plan.pdf"),
]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def image(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


async def test_an_expert_sees_each_file_behind_what_the_task_calls_it(
    adapters: AdaptersUnderTest,
) -> None:
    with serving("They differ.") as server:
        tool = adapters.register(llm_spec(server.base_url, llm={"system_prompt": "Be brief."}))
        task = f"Compare\n{FIRST}\nwith\n{THIRD}"
        answer = await adapters.call(tool, {"model": "large"}, task=task, files=FILES)
    assert answer.output.content == "They differ."
    pdf = {"filename": "plan.pdf", "file_data": data_url(PDF, "application/pdf")}
    assert server.requests[0]["messages"][1]["content"] == [
        text(f"Task:\nCompare\n{FIRST}"),
        image(data_url(RED)),
        text(f"with\n{THIRD}"),
        {"type": "file", "file": pdf},
        image(data_url(BLUE, "image/jpeg")),
    ]


async def test_a_conversation_has_its_files_where_they_were_said(
    adapters: AdaptersUnderTest,
) -> None:
    said = [("user", f"See {FIRST}"), ("assistant", f"I see {FIRST}"), ("user", f"And\n{SECOND}")]
    conversation = pb.Conversation(
        messages=[orchestrator_pb.ConversationMessage(role=r, content=c) for r, c in said]
    )
    with serving("Blue.") as server:
        await adapters.call(
            adapters.register(llm_spec(server.base_url)),
            {"model": "small"},
            conversation=conversation,
            files=FILES[:2],
        )
    assert [message["content"] for message in server.requests[0]["messages"]] == [
        [text("See "), image(data_url(RED))],
        f"I see {FIRST}",
        [text("And"), image(data_url(BLUE, "image/jpeg"))],
    ]


async def test_anthropic_gets_images_and_documents(adapters: AdaptersUnderTest) -> None:
    events = [started(input_tokens=20), wrote("ok"), stopped(output_tokens=1)]
    async with AnthropicServer(events) as server:
        tool = adapters.register(llm_spec(server.base_url, "ANTHROPIC_MESSAGES"))
        await adapters.call(tool, task=f"{THIRD}\n{SECOND}", files=FILES[1:])
    [asked] = server.requests
    document, picture = (base64.b64encode(data).decode() for data in (PDF, BLUE))
    [title, pdf, name, jpeg] = asked["messages"][0]["content"]
    assert (title, name) == (text(f"Task:\n{THIRD}"), text(SECOND))
    source = {"type": "base64", "media_type": "application/pdf", "data": document}
    assert pdf == {"type": "document", "source": source, "title": "plan.pdf"}
    source = {"type": "base64", "media_type": "image/jpeg", "data": picture}
    assert jpeg == {"type": "image", "source": source}


async def test_without_a_report_an_image_counts_by_an_estimate(adapters: AdaptersUnderTest) -> None:
    reply = Reply(raw_body=b'{"choices": [{"message": {"content": "12345678"}}]}')
    with serving(reply) as server:
        tool = adapters.register(llm_spec(server.base_url))
        answer = await adapters.call(tool, task=FIRST, files=FILES[:1])
    assert counted(answer)["INPUT_FRESH"] > IMAGE_TOKENS

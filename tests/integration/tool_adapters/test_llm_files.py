import base64

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.anthropic_server import AnthropicServer, started, stopped, wrote
from integration.tool_adapters.test_llm_tools import counted, serving
from integration.tool_adapters.tool_specs import llm_spec
from media_files import attached, data_url, make_image, make_pdf
from openai_server import Reply
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_kit.attachments import IMAGE_TOKENS

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

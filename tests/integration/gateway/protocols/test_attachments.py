import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx
import openai
import pytest
from a2a.types.a2a_pb2 import Part
from a2a.utils.errors import ContentTypeNotSupportedError

from builders.media_files import data_url, make_image, make_pdf
from integration.gateway.gateway_under_test import Gateway
from integration.gateway.protocols.test_a2a import client_of as agent_of
from integration.gateway.protocols.test_a2a import events_of, make_request, sent
from integration.gateway.protocols.test_messages import client_of as anthropic_of
from integration.gateway.scripted_episodes import UnsupportedAttachment
from podium.common.v1.attachment_pb2 import Attachment
from podium.episodes.v1 import episode_service_pb2 as pb

RED, PLAN = make_image(), make_pdf()
FIRST, SECOND = "[image 1: image/png, 64x48, 1 kB]", "[PDF 2: plan.pdf, 1 kB]"
TASK = f"Compare\n{FIRST}\nwith\n{SECOND}"
CHAT = [
    {"type": "text", "text": "Compare"},
    {"type": "image_url", "image_url": {"url": data_url(RED), "detail": "low"}},
    {"type": "text", "text": "with"},
    {
        "type": "file",
        "file": {"file_data": data_url(PLAN, "application/pdf"), "filename": "C:\\a\\plan.pdf"},
    },
]
RESPONSES = [
    {"type": "input_text", "text": "Compare"},
    {"type": "input_image", "image_url": data_url(RED), "detail": "auto"},
    {"type": "input_text", "text": "with"},
    {
        "type": "input_file",
        "file_data": base64.b64encode(PLAN).decode(),
        "filename": "plan.pdf",
    },
]
MESSAGES = [
    {"type": "text", "text": "Compare"},
    {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(RED).decode(),
        },
    },
    {"type": "text", "text": "with"},
    {
        "type": "document",
        "title": "plan.pdf",
        "source": {
            "type": "base64",
            "media_type": "application/pdf",
            "data": base64.b64encode(PLAN).decode(),
        },
    },
]
AGENT = [
    Part(text="Compare"),
    Part(raw=RED, media_type="image/png"),
    Part(text="with"),
    Part(raw=PLAN, media_type="application/pdf", filename="plan.pdf"),
]


def described(placeholder: str, data: bytes, media_type: str, name: str = "") -> Attachment:
    digest = hashlib.sha256(data).hexdigest()
    return Attachment(
        placeholder=placeholder,
        media_type=media_type,
        digest=digest,
        size_bytes=len(data),
        name=name,
    )


BOTH = [
    described(FIRST, RED, "image/png"),
    described(SECOND, PLAN, "application/pdf", "plan.pdf"),
]


def started(gateway: Gateway) -> pb.StartEpisodeRequest:
    return list(gateway.episodes.episodes.values())[-1].request


async def through_chat(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        said: Any = [{"role": "user", "content": CHAT}]
        await client.chat.completions.create(model="podium", messages=said)


async def through_responses(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        said: Any = [{"role": "user", "content": RESPONSES}]
        await client.responses.create(model="podium", input=said)


async def through_messages(gateway: Gateway) -> None:
    async with anthropic_of(gateway) as client:
        said: Any = [{"role": "user", "content": MESSAGES}]
        await client.messages.create(model="podium", max_tokens=9, messages=said)


async def through_a2a(gateway: Gateway) -> None:
    async with agent_of(gateway) as client:
        await events_of(client, make_request(parts=AGENT))


DOORS = [through_chat, through_responses, through_messages, through_a2a]


@pytest.mark.parametrize("door", DOORS, ids=["chat", "responses", "messages", "a2a"])
async def test_files_stand_in_the_task_by_a_number_and_go_beside_it(
    gateway: Gateway, door: Any
) -> None:
    await door(gateway)
    request = started(gateway)
    assert request.spec.task == TASK
    assert list(request.spec.attachments) == BOTH
    assert list(request.attachment_data) == [RED, PLAN]


async def test_those_of_earlier_messages_are_counted_first(gateway: Gateway) -> None:
    image = CHAT[1]
    said: Any = [
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": "Red."},
        {"role": "user", "content": [{"type": "text", "text": "And here?"}, image]},
    ]
    async with gateway.openai() as client:
        await client.chat.completions.create(model="podium", messages=said)
    spec = started(gateway).spec
    assert [message.content for message in spec.history] == [FIRST, "Red."]
    assert spec.task == f"And here?\n{FIRST.replace('1:', '2:')}"
    assert len(spec.attachments) == 2


async def test_a_follow_up_speaks_of_the_files_before_it(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        said: Any = [{"role": "user", "content": RESPONSES}]
        first = await client.responses.create(model="podium", input=said)
        more: Any = [{"role": "user", "content": [RESPONSES[1]]}]
        await client.responses.create(model="podium", input=more, previous_response_id=first.id)
    request = started(gateway)
    third = FIRST.replace("1:", "3:")
    assert (request.spec.history[0].content, request.spec.task) == (TASK, third)
    assert list(request.spec.attachments) == [*BOTH, described(third, RED, "image/png")]
    # The others are kept already.
    assert list(request.attachment_data) == [RED]


async def test_an_agents_context_keeps_its_files(gateway: Gateway) -> None:
    async with agent_of(gateway, streaming=False) as client:
        first = await sent(client, make_request(parts=AGENT))
        parts = [Part(raw=RED, media_type="")]
        await sent(client, make_request(parts=parts, context_id=first.context_id))
    request = started(gateway)
    assert request.spec.task == FIRST.replace("1:", "3:")
    assert list(request.spec.attachments)[:2] == BOTH
    assert list(request.attachment_data) == [RED]


async def test_a_file_that_nobody_reads_is_an_error_that_names_its_part(gateway: Gateway) -> None:
    gateway.episodes.rejection = UnsupportedAttachment("nobody reads it", attachment=1)
    doors: Mapping[str, Any] = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": CHAT}]},
        "/v1/responses": {"input": [{"role": "user", "content": RESPONSES}]},
        "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": MESSAGES}]},
    }
    for path, body in doors.items():
        reply = await gateway.post(path, json={"model": "podium", **body})
        error = reply.json()["error"]
        field = "input" if path == "/v1/responses" else "messages"
        assert (reply.status_code, error["param"]) == (400, f"{field}.0.content.3")
        assert (error["code"], error["type"]) == (
            "unsupported_attachment",
            "invalid_request_error",
        )
    async with agent_of(gateway) as client:
        with pytest.raises(ContentTypeNotSupportedError, match="nobody reads it"):
            await events_of(client, make_request(parts=AGENT))


def image_of(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def file_of(**fields: str) -> dict[str, Any]:
    return {"type": "file", "file": fields}


GIF = make_image(10, 10, "GIF")
# Width and height follow the signature.
HUGE = GIF[:6] + b"\xff" * 4 + GIF[10:]
REJECTED = {
    "remote": (image_of("https://example.com/cat.png"), "invalid_image_url", "nothing is fetched"),
    "no base64": (image_of("data:image/png,abc"), "invalid_image_url", "send the bytes"),
    "digits": (image_of("data:image/png;base64,@@"), "invalid_base64_image", "is no base64"),
    "empty": (image_of("data:image/png;base64,"), "empty_image", "is empty"),
    "vector": (
        image_of(data_url(b"<svg/>", "image/svg+xml")),
        "unsupported_media_type",
        "image/png",
    ),
    "other": (image_of(data_url(RED, "image/jpeg")), "invalid_file_format", "bytes are image/png"),
    "half": (image_of(data_url(RED[:20])), "invalid_image_format", "cannot be read"),
    "pixels": (image_of(data_url(HUGE, "image/gif")), "image_too_large", "50,000,000 pixels"),
    "text": (image_of(data_url(b"hello")), "invalid_file_format", "none of image/png"),
    "file id": (file_of(file_id="file-1"), "unsupported_file_id", "send the file's bytes"),
    "no file": (file_of(filename="a.pdf"), "missing_file_data", "as file_data"),
    "word": (
        file_of(file_data=base64.b64encode(b"PK\x03\x04").decode(), filename="a.docx"),
        "invalid_file_format",
        "application/pdf",
    ),
    "sound": ({"type": "input_audio"}, "unsupported_content", "send text, images or files"),
}


@pytest.mark.parametrize(("part", "code", "words"), REJECTED.values(), ids=REJECTED.keys())
async def test_a_part_that_cannot_be_taken_says_why_and_what_to_do(
    gateway: Gateway, part: dict[str, Any], code: str, words: str
) -> None:
    content = [{"type": "text", "text": "See"}, part]
    reply = await gateway.post(
        "/v1/chat/completions",
        json={"model": "podium", "messages": [{"role": "user", "content": content}]},
    )
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (
        400,
        code,
        "messages.0.content.1",
    )
    assert words in error["message"]
    assert not gateway.episodes.episodes


async def test_there_are_no_more_than_twenty(gateway: Gateway) -> None:
    reply = await gateway.post(
        "/v1/chat/completions",
        json={
            "model": "podium",
            "messages": [{"role": "user", "content": [image_of(data_url(RED))] * 21}],
        },
    )
    error = reply.json()["error"]
    assert (error["code"], error["param"]) == ("too_many_files", "messages.0.content.20")


async def test_what_is_large_together_is_rejected(gateway: Gateway) -> None:
    large = base64.b64encode(make_pdf("x" * (11 << 20))).decode()
    reply = await gateway.post(
        "/v1/responses",
        json={
            "model": "podium",
            "input": [
                {"role": "user", "content": [{"type": "input_file", "file_data": large}] * 2}
            ],
        },
        timeout=60,
    )
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (
        400,
        "too_many_files",
        "input.0.content.1",
    )
    assert "over 20 MiB together" in error["message"]


async def test_only_the_user_shows_files(gateway: Gateway) -> None:
    image = image_of(data_url(RED))
    replies: list[httpx.Response] = []
    for role in ("system", "assistant"):
        said = [{"role": role, "content": [image]}, {"role": "user", "content": "?"}]
        body = {"model": "podium", "messages": said}
        replies.append(await gateway.post("/v1/chat/completions", json=body))
    for reply in replies:
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (400, "unsupported_content"), error
        assert "user's" in error["message"]


async def test_clients_raise_their_own_errors(gateway: Gateway) -> None:
    remote: Any = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    uploaded: Any = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    async with anthropic_of(gateway) as client:
        for block, words in ((remote, "nothing is fetched"), (uploaded, "no files are uploaded")):
            with pytest.raises(anthropic.BadRequestError, match=words):
                await client.messages.create(
                    model="podium", max_tokens=9, messages=[{"role": "user", "content": [block]}]
                )
    async with gateway.openai() as openai_client:
        said: Any = [{"role": "user", "content": [image_of("http://127.0.0.1/cat.png")]}]
        with pytest.raises(openai.BadRequestError) as raised:
            await openai_client.chat.completions.create(model="podium", messages=said)
    assert (raised.value.code, raised.value.param) == ("invalid_image_url", "messages.0.content.0")
    async with agent_of(gateway) as agent:
        parts = [Part(text="See"), Part(url="https://example.com/a.png", media_type="image/png")]
        with pytest.raises(ContentTypeNotSupportedError, match=r"parts\[1\]: nothing is fetched"):
            await events_of(agent, make_request(parts=parts))


async def test_a_text_document_is_text(gateway: Gateway) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "The plan."}
    blocks: Any = [{"type": "document", "source": source}, {"type": "text", "text": "Why?"}]
    async with anthropic_of(gateway) as client:
        await client.messages.create(
            model="podium", max_tokens=9, messages=[{"role": "user", "content": blocks}]
        )
    request = started(gateway)
    assert (request.spec.task, len(request.spec.attachments)) == ("The plan.\nWhy?", 0)

"""Files in the messages of a model: where they stand, and how each API takes them.

Sources: OpenAI's guides to images and PDF files in chat completions and responses, Anthropic's to
vision and PDF support.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from podium_kit.attachments import AttachedFile, MediaKind
from tool_adapters.adapter import ModelMessage
from tool_adapters.models import JsonObject

Parts = tuple[str | AttachedFile, ...]


def with_files(
    messages: Sequence[ModelMessage], files: Sequence[AttachedFile], *, labelled: bool
) -> tuple[ModelMessage, ...]:
    """The messages with each file where a user's message first has its placeholder; what none
    names stands behind the last one.

    `labelled` keeps the placeholders, for a model that knows files by them.
    """
    if not files:
        return tuple(messages)
    sent, left = list(messages), list(files)
    users = [place for place, message in enumerate(sent) if message.role == "user"]
    for place in users:
        named = [file for file in left if file.attachment.placeholder in sent[place].content]
        left = [file for file in left if file not in named]
        if place == users[-1]:
            named += left
        if named:
            sent[place] = replace(sent[place], parts=_parts(sent[place].content, named, labelled))
    return tuple(sent)


def _parts(text: str, files: Iterable[AttachedFile], labelled: bool) -> Parts:
    def pieces() -> Iterator[str | AttachedFile]:
        start = 0
        for at, file in sorted(_places(text, files), key=lambda place: place[0]):
            end = at + len(file.attachment.placeholder) if at < len(text) else at
            yield text[start : end if labelled else at].strip("\n")
            yield file
            start = end
        yield text[start:].strip("\n")

    return tuple(piece for piece in pieces() if piece)


def _places(text: str, files: Iterable[AttachedFile]) -> Iterator[tuple[int, AttachedFile]]:
    for file in files:
        at = text.find(file.attachment.placeholder)
        yield (at if at >= 0 else len(text)), file


def openai_content(message: ModelMessage) -> str | list[JsonObject]:
    """Servers without vision know text alone."""
    return [_openai_part(part) for part in message.parts] or message.content


def anthropic_content(message: ModelMessage) -> str | list[JsonObject]:
    return [_anthropic_part(part) for part in message.parts] or message.content


def responses_content(message: ModelMessage) -> str | list[JsonObject]:
    return [_responses_part(part) for part in message.parts] or message.content


def _openai_part(part: str | AttachedFile) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url = f"data:{part.attachment.media_type};base64,{_encoded(part)}"
    if part.attachment.kind is MediaKind.IMAGE:
        return {"type": "image_url", "image_url": {"url": url}}
    name = part.attachment.name or "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def _responses_part(part: str | AttachedFile) -> JsonObject:
    chat = _openai_part(part)
    match chat["type"]:
        case "text":
            return {"type": "input_text", "text": chat["text"]}
        case "image_url":
            return {"type": "input_image", "image_url": chat["image_url"]["url"]}
        case _:
            return {"type": "input_file", **chat["file"]}


def _anthropic_part(part: str | AttachedFile) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data, media_type = _encoded(part), part.attachment.media_type
    source = {"type": "base64", "media_type": media_type, "data": data}
    if part.attachment.kind is MediaKind.IMAGE:
        return {"type": "image", "source": source}
    title = {"title": part.attachment.name} if part.attachment.name else {}
    return {"type": "document", "source": source, **title}


def _encoded(file: AttachedFile) -> str:
    return base64.b64encode(file.data).decode()

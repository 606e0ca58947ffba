"""Cuts documents into passages: whole paragraphs, as many as fit."""

import re
import textwrap
from collections.abc import Iterator

from bs4 import BeautifulSoup

from tool_adapters.corpus.models import Document, MediaType

PASSAGE_CHARACTERS_MAX = 1200


def passages_of(document: Document) -> list[str]:
    """Passages of at most 1200 characters, in the order of the text."""
    passages: list[str] = []
    for paragraph in _paragraphs(_text(document)):
        joined = f"{passages[-1]}\n\n{paragraph}" if passages else paragraph
        if passages and len(joined) <= PASSAGE_CHARACTERS_MAX:
            passages[-1] = joined
        else:
            passages.append(paragraph)
    return passages


def _text(document: Document) -> str:
    if document.media_type is not MediaType.HTML:
        return document.content
    soup = BeautifulSoup(document.content, "html.parser")
    for element in soup(["script", "style"]):
        element.decompose()
    return soup.get_text("\n\n", strip=True)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        if len(paragraph) > PASSAGE_CHARACTERS_MAX:
            yield from textwrap.wrap(paragraph, PASSAGE_CHARACTERS_MAX)
        elif paragraph.strip():
            yield paragraph.strip()

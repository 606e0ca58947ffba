"""Cuts documents into pieces: whole blocks of one section, as many as fit."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from podium_kit.helper_processes import Helpers
from podium_kit.limits.concurrency import FairThread
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.limits import PDF_TOO_LARGE
from tool_adapters.corpus.models import SHARED_OWNER, Document, MediaType, Piece

MEASURE = "measure"
READER = "tool_adapters.corpus.pdf_reader"
TIME_MAX_S = 60.0
# Of all pages as JSON, in which a character takes up to twelve bytes.
OUTPUT_BYTES_MAX = 16 * 1024 * 1024
# Each may take a gigabyte; a tenant's wait for each other.
READERS = Helpers(
    READER,
    count=2,
    per_tenant=1,
    time_max_s=TIME_MAX_S,
    output_bytes_max=OUTPUT_BYTES_MAX,
)
PASSAGE_CHARACTERS_MAX = 1200


async def pdf_blocks(document: Document, tenant: str) -> list[Piece]:
    """A block for each page that has text. Raises InvalidDocument."""
    try:
        written = await READERS.run(tenant, document.data)
    except TimeoutError as error:
        raise InvalidDocument(document.id, f"takes longer than {TIME_MAX_S:g} s to read") from error
    answer = json.loads(written) if written else {"error": PDF_TOO_LARGE}
    if "error" in answer:
        raise InvalidDocument(document.id, answer["error"])
    return [Piece(*page) for page in answer["pages"]]


async def pdf_tokens(data: bytes, tenant: str) -> int:
    """The most that a model reads of a PDF; 0 where that cannot be found out."""
    try:
        written = await READERS.run(tenant, data, MEASURE)
    except TimeoutError:
        return 0
    answer = json.loads(written) if written else {}
    return int(answer.get("tokens", 0))


CUTTING = FairThread()


async def pieces_of(document: Document, tenant: str = SHARED_OWNER) -> list[Piece]:
    """Pieces of at most 1200 characters, in the order of the text. Raises InvalidDocument."""
    if document.media_type is MediaType.PDF:
        return joined(await pdf_blocks(document, tenant))
    return await CUTTING.run(tenant, partial(_pieces_of_text, document))


def _pieces_of_text(document: Document) -> list[Piece]:
    from tool_adapters.corpus.extraction import blocks_of

    return joined(blocks_of(document))


def joined(blocks: Iterable[Piece]) -> list[Piece]:
    """Neighbours of one section and page together, as far as they fit; longer ones cut."""
    pieces: list[Piece] = []
    for block in (part for whole in blocks for part in _cut(whole)):
        if pieces and _fit(pieces[-1], block):
            content = f"{pieces[-1].content}\n\n{block.content}"
            pieces[-1] = replace(pieces[-1], content=content, end=block.end)
        else:
            pieces.append(block)
    return pieces


def _fit(first: Piece, second: Piece) -> bool:
    same_place = (first.section, first.page) == (second.section, second.page)
    length = len(first.content) + len("\n\n") + len(second.content)
    return same_place and length <= PASSAGE_CHARACTERS_MAX


def _cut(block: Piece) -> Iterator[Piece]:
    """Cuts between words where there are some."""
    if len(block.content) <= PASSAGE_CHARACTERS_MAX:
        yield block
        return
    place = 0
    for line in textwrap.wrap(
        block.content,
        PASSAGE_CHARACTERS_MAX,
        # As it is written, so that the places are the document's.
        expand_tabs=False,
        replace_whitespace=False,
        break_on_hyphens=False,
    ):
        place = block.content.index(line, place)
        start = block.start + place if block.end else 0
        yield replace(block, content=line, start=start, end=start + len(line) if block.end else 0)
        place += len(line)

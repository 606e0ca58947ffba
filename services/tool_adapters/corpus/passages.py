"""Cuts documents into pieces: whole blocks of one section, as many as fit."""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from podium_kit.limits.concurrency import FairThread
from tool_adapters.corpus.models import SHARED_OWNER, Document, MediaType, Piece
from tool_adapters.corpus.pdf import pdf_blocks

PASSAGE_CHARACTERS_MAX = 1200
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

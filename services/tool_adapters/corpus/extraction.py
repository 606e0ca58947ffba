"""The text of a document as blocks that know where they stand: paragraphs, lists, tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bs4 import BeautifulSoup
from bs4.element import NavigableString
from markdown_it import MarkdownIt

from tool_adapters.corpus.models import Document, MediaType, Piece

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
HTML_BLOCKS = (
    *("p", "li", "pre", "tr", "dt", "dd", "blockquote", "figcaption", "caption"),
    *("div", "section", "article", "main", "body"),
)
APART = ("td", "th", "br")
NOT_TEXT = ("head", "script", "style", "noscript", "template", "nav", "svg")
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass
class _Headings:
    """The headings above a place, outermost first."""

    path: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, level: int, title: str) -> None:
        self.path = [(above, text) for above, text in self.path if above < level]
        self.path.append((level, " ".join(title.split())))

    @property
    def section(self) -> str:
        return " > ".join(title for _, title in self.path)


def blocks_of(document: Document) -> list[Piece]:
    """Blocks of a document of text, Markdown or HTML, in the order of the text."""
    readers = {MediaType.MARKDOWN: _markdown, MediaType.HTML: _html}
    blocks = list(readers.get(document.media_type, _plain)(document.content))
    # Nothing but headings is still something to find.
    return blocks or list(_plain(document.content))


def _plain(text: str) -> Iterator[Piece]:
    for found in re.finditer(r"\S(?:.*\S)?(?:[^\S\n]*\n[^\S\n]*\S(?:.*\S)?)*", text):
        yield Piece(found[0], start=found.start(), end=found.end())


def _markdown(text: str) -> Iterator[Piece]:
    """Top-level blocks as they are written (CommonMark with tables)."""
    starts = [0, *(found.end() for found in re.finditer(r"\n", text)), len(text)]
    headings = _Headings()
    tokens = MARKDOWN.parse(text)
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0:
            headings.enter(int(token.tag[1]), tokens[number + 1].content)
        elif token.level == 0 and token.map and token.nesting >= 0 and token.type != "hr":
            start, end = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
            if content := text[start:end].strip():
                start = text.index(content, start)
                yield Piece(content, headings.section, 0, start, start + len(content))


def _html(text: str) -> Iterator[Piece]:
    soup = BeautifulSoup(text, "html.parser")
    for element in soup(NOT_TEXT):
        element.decompose()
    for element in soup(APART):
        element.insert_after(" ")
    headings = _Headings()
    block: object = None
    words: list[str] = []
    for string in soup.find_all(string=True):
        # Comments and the like are strings of other types.
        if type(string) is not NavigableString:
            continue
        owner = string.find_parent([*HEADINGS, *HTML_BLOCKS]) or soup
        if owner is not block and words:
            yield from _finish(block, words, headings)
            words = []
        block = owner
        words.append(string)
    yield from _finish(block, words, headings)


def _finish(block: object, words: list[str], headings: _Headings) -> Iterator[Piece]:
    """A heading changes the section; everything else is text."""
    name = getattr(block, "name", "")
    written = "".join(words)
    text = written.strip() if name == "pre" else " ".join(written.split())
    if text and name in HEADINGS:
        headings.enter(int(name[1]), text)
    elif text:
        yield Piece(text, headings.section)

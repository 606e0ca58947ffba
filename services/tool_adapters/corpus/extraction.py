"""The text of a document as blocks that know where they stand: paragraphs, lists, tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag
from markdown_it import MarkdownIt

from tool_adapters.corpus.limits import HEADING_CHARACTERS_MAX
from tool_adapters.corpus.models import Document, MediaType, Piece

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
HTML_BLOCKS = (
    *("p", "li", "pre", "tr", "dt", "dd", "blockquote", "figcaption", "caption"),
    *("div", "section", "article", "main", "body"),
)
OWNERS = {*HEADINGS, *HTML_BLOCKS}
APART = ("td", "th", "br")
NOT_TEXT = ("head", "script", "style", "noscript", "template", "nav", "svg")
COMMENT_END = re.compile(r"--\s*>")
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass
class _Headings:
    path: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, level: int, title: str) -> bool:
        """Returns whether the heading is there as a whole; a longer one is cut, and is text as
        well.
        """
        words = " ".join(title.split())
        self.path = [(above, text) for above, text in self.path if above < level]
        self.path.append((level, words[:HEADING_CHARACTERS_MAX]))
        return len(words) <= HEADING_CHARACTERS_MAX

    @property
    def section(self) -> str:
        return " > ".join(title for _, title in self.path)


def blocks_of(document: Document) -> list[Piece]:
    readers = {MediaType.MARKDOWN: _markdown, MediaType.HTML: _html}
    blocks = list(readers.get(document.media_type, _plain)(document.content))
    # Nothing but headings is still something to find.
    return blocks or list(_plain(document.content))


def _plain(text: str) -> Iterator[Piece]:
    for found in re.finditer(r"\S(?:.*\S)?(?:[^\S\n]*\n[^\S\n]*\S(?:.*\S)?)*", text):
        yield Piece(found[0], start=found.start(), end=found.end())


def _markdown(text: str) -> Iterator[Piece]:
    """Top-level blocks as they are written (CommonMark with tables)."""
    # CommonMark's ends of lines; its parser counts lines by them.
    starts = [0, *(found.end() for found in re.finditer(r"\r\n?|\n", text)), len(text)]
    headings = _Headings()
    tokens = MARKDOWN.parse(text)
    for number, token in enumerate(tokens):
        heading = token.type == "heading_open" and token.level == 0
        if heading and headings.enter(int(token.tag[1]), tokens[number + 1].content):
            continue
        if token.level == 0 and token.map and token.nesting >= 0 and token.type != "hr":
            start, end = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
            if content := text[start:end].strip():
                start = text.index(content, start)
                yield Piece(content, headings.section, 0, start, start + len(content))


def _html(text: str) -> Iterator[Piece]:
    headings = _Headings()
    block: object = None
    words: list[str] = []
    for owner, string in _strings(BeautifulSoup(_parsable(text), "html.parser")):
        if owner is not block and words:
            yield from _finish(block, words, headings)
            words = []
        block = owner
        words.append(string)
    yield from _finish(block, words, headings)


def _parsable(text: str) -> str:
    """HTML that Python's parser reads in one pass, to the same text.

    It looks for the end of each tag, comment and section, and where there is none, from the
    next one to the end of the text again; sections it does not know it rejects.
    """
    # Sections of SGML are comments in HTML.
    text = text.replace("<![", "<!x[")
    ends = [found.end() for found in COMMENT_END.finditer(text)]
    # A comment without an end takes the rest.
    unclosed = text.find("<!--", ends[-1] if ends else 0)
    text = text if unclosed < 0 else text[:unclosed]
    whole = text.rfind(">") + 1
    return text[:whole] + text[whole:].replace("<", "&lt;")


def _strings(page: Tag) -> Iterator[tuple[Tag, str]]:
    """Every text of a page with the block that it belongs to.

    Each element is met once, and none by recursion: a page may be as deep or as wide as it is long.
    """
    open_elements = [(page, iter(page.contents), page)]
    while open_elements:
        element, children, owner = open_elements[-1]
        child = next(children, None)
        if child is None:
            open_elements.pop()
            if element.name in APART:
                yield open_elements[-1][-1], " "
        elif isinstance(child, Tag):
            if child.name not in NOT_TEXT:
                inner = child if child.name in OWNERS else owner
                open_elements.append((child, iter(child.contents), inner))
        # Comments and the like are strings of other types.
        elif type(child) is NavigableString:
            yield owner, child


def _finish(block: object, words: list[str], headings: _Headings) -> Iterator[Piece]:
    """A heading changes the section; everything else is text."""
    name = getattr(block, "name", "")
    written = "".join(words)
    text = written.strip() if name == "pre" else " ".join(written.split())
    if text and not (name in HEADINGS and headings.enter(int(name[1]), text)):
        yield Piece(text, headings.section)

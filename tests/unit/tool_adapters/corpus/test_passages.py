import asyncio
import io
from collections.abc import Callable
from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText
from pypdf.generic import NameObject

from builders.corpus_documents import make_document, make_pdf
from podium.adapters.v1 import corpus_service_pb2 as pb
from podium_kit.attachments import PDF_TOKENS
from podium_kit.rpc.bounds import OutOfBounds, require_bounds
from tool_adapters.corpus import pdf_reader
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.limits import HEADING_CHARACTERS_MAX
from tool_adapters.corpus.models import (
    CONTENT_CHARACTERS_MAX,
    CorpusKey,
    Hit,
    MediaType,
    Passage,
    Piece,
)
from tool_adapters.corpus.passages import PASSAGE_CHARACTERS_MAX, pdf_tokens, pieces_of
from tool_adapters.corpus.service import Corpora

MARKDOWN = """# Handbook

Welcome.

## Leave

27 days.

- sick leave
- parental leave

| kind | days |
|------|------|
| sick | 30   |

## Pay

Paid on the 25th.
"""


async def test_paragraphs_of_text_are_joined_and_know_their_characters() -> None:
    text = "First.\n\n  Second line\nand third.\n"
    (piece,) = await pieces_of(make_document(text))
    assert piece.content == "First.\n\nSecond line\nand third."
    assert text[piece.start : piece.end] == "First.\n\n  Second line\nand third."


async def test_sections_of_markdown_stay_apart_and_keep_their_headings() -> None:
    pieces = await pieces_of(make_document(MARKDOWN, MediaType.MARKDOWN))
    assert [piece.section for piece in pieces] == [
        "Handbook",
        "Handbook > Leave",
        "Handbook > Pay",
    ]
    leave = pieces[1]
    assert leave.content.startswith("27 days.\n\n- sick leave\n- parental leave\n\n| kind | days |")
    assert MARKDOWN[leave.start : leave.end] == leave.content


async def test_code_in_markdown_is_no_heading() -> None:
    text = "```\n# not a heading\n```\n\nText."
    (piece,) = await pieces_of(make_document(text, MediaType.MARKDOWN))
    assert piece.section == ""
    assert "# not a heading" in piece.content


async def test_html_is_its_text_under_its_headings() -> None:
    html = """<html><head><title>T</title><style>p {}</style></head><body>
    <h1>Pay</h1><script>var secretword</script><p>Paid on <b>the 25th</b>.</p>
    <h2>Bonus</h2><ul><li>one</li><li>two</li></ul><!-- hidden -->
    <table><tr><td>a</td><td>b</td></tr></table><pre>x = 1\ny = 2</pre></body></html>"""
    pieces = await pieces_of(make_document(html, MediaType.HTML))
    assert pieces == [
        Piece("Paid on the 25th.", "Pay"),
        Piece("one\n\ntwo\n\na b\n\nx = 1\ny = 2", "Pay > Bonus"),
    ]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        ("<h1>Only a heading</h1>", MediaType.HTML),
        ("# Only a heading", MediaType.MARKDOWN),
        ("<<<>>> &&& <p", MediaType.HTML),
    ],
)
async def test_a_document_without_paragraphs_is_still_found(
    content: str, media_type: MediaType
) -> None:
    assert len(await pieces_of(make_document(content, media_type))) == 1


async def test_markdown_with_any_ends_of_lines_knows_its_characters() -> None:
    text = "one\r\rtwo\r\n\r\n# Title\r\rthree\n"
    first, second = await pieces_of(make_document(text, MediaType.MARKDOWN))
    assert (first.content, second.content, second.section) == ("one\n\ntwo", "three", "Title")
    assert text[first.start : first.end] == "one\r\rtwo"
    assert text[second.start : second.end] == "three"


async def test_html_that_no_standard_knows_is_read_all_the_same() -> None:
    html = "<p>one<![CDATA[x]]><![if !IE]>two<![endif]><!--[if mso]>y<![endif]--><![]doc>three"
    (piece,) = await pieces_of(make_document(html + "<!-- no end", MediaType.HTML))
    assert piece.content == "onetwothree"


@pytest.mark.parametrize("part", ["<i>x", "x<br>", "<td>x", "<a", "</", "<!-- >", "<![CDATA[ >"])
async def test_html_is_read_once_however_deep_wide_or_broken_it_is(part: str) -> None:
    # Read again for each part, it would take hours.
    count = CONTENT_CHARACTERS_MAX // 20
    pieces = await pieces_of(make_document("<p>first</p>" + part * count, MediaType.HTML))
    assert pieces[0].content.startswith("first")


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        ("<h1>{}</h1><p>one</p><h2>Next</h2><p>two</p>", MediaType.HTML),
        ("# {}\n\none\n\n## Next\n\ntwo\n", MediaType.MARKDOWN),
    ],
)
async def test_a_long_heading_is_cut_above_its_passages_and_is_text(
    content: str, media_type: MediaType
) -> None:
    heading = "heading " * 30 + "end"
    pieces = await pieces_of(make_document(content.format(heading), media_type))
    cut = heading[:HEADING_CHARACTERS_MAX]
    assert [piece.section for piece in pieces] == [cut, f"{cut} > Next"]
    assert heading in pieces[0].content
    assert pieces[0].content.endswith("\n\none")


@pytest.mark.parametrize(
    "document", [pb.Document(id="a", title="x" * 501), pb.Document(id="a", uri="x" * 2001)]
)
def test_what_every_passage_repeats_has_a_bound(document: pb.Document) -> None:
    with pytest.raises(OutOfBounds, match="give at most"):
        require_bounds(document)


async def test_long_paragraphs_are_cut_between_words() -> None:
    text = "word " * 1000 + "x" * 3000
    pieces = await pieces_of(make_document(text))
    assert max(len(piece.content) for piece in pieces) <= PASSAGE_CHARACTERS_MAX
    assert [text[piece.start : piece.end] for piece in pieces] == [
        piece.content for piece in pieces
    ]
    assert pieces[0].content.endswith("word")


async def test_pages_and_chapters_of_a_pdf_are_kept() -> None:
    data = make_pdf("Leave is 27 days.", "Pay day.", "Trains.", chapters=(("Money", 1),))
    pieces = await pieces_of(make_document("", MediaType.PDF, data=data))
    assert pieces == [
        Piece("Leave is 27 days.", "", 1),
        Piece("Pay day.", "Money", 2),
        Piece("Trains.", "Money", 3),
    ]


async def test_a_long_chapter_of_a_pdf_is_cut() -> None:
    data = make_pdf("Leave.", chapters=(("x" * 500, 0),))
    (piece,) = await pieces_of(make_document("", MediaType.PDF, data=data))
    assert piece.section == "x" * HEADING_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"%PDF-1.7 garbage", "is no PDF"),
        (lambda: b"\x7fELF\x02\x01\x01", "is no PDF"),
        (lambda: make_pdf("text")[:300], "is no PDF"),
        (lambda: make_pdf("text", password="secret"), "is encrypted"),
        (lambda: make_pdf(""), "holds no text"),
        (lambda: make_pdf(*["x" * 600] * 2001), "more than 2000 pages"),
    ],
    ids=["garbage", "program", "torn off", "encrypted", "without text", "too long"],
)
async def test_a_pdf_that_cannot_be_read_says_why_and_which(
    make: Callable[[], bytes], words: str
) -> None:
    with pytest.raises(InvalidDocument, match=words) as error:
        await pieces_of(make_document("", MediaType.PDF, id="bad.pdf", data=make()))
    assert "'bad.pdf'" in str(error.value)


async def test_a_pdf_opened_by_the_empty_password_is_read() -> None:
    data = make_pdf("Open.", password="")
    assert len(await pieces_of(make_document("", MediaType.PDF, data=data))) == 1


@pytest.mark.parametrize(
    ("content", "media_type", "data", "words"),
    [
        ("", MediaType.PDF, b"", "send its file as data"),
        ("text", MediaType.PDF, b"%PDF", "send its file as data"),
        ("text", MediaType.PLAIN, b"x", "has data"),
        ("", MediaType.PDF, bytes(10 * 2**20 + 1), "larger than 10 MiB"),
        ("x" * 1_000_001, MediaType.PLAIN, b"", "longer than"),
    ],
)
def test_a_document_has_what_its_media_type_says(
    content: str, media_type: MediaType, data: bytes, words: str
) -> None:
    with pytest.raises(InvalidDocument, match=words):
        make_document(content, media_type, data=data)


class CountingStore:
    def __init__(self) -> None:
        self.loads = 0

    async def version(self, key: CorpusKey) -> int | None:
        await asyncio.sleep(0)
        return 1

    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]:
        self.loads += 1
        await asyncio.sleep(0)
        return 1, [Passage("leave", "Leave", "", Piece("27 days of leave"))]


def search(corpora: Corpora) -> "asyncio.Task[list[Hit]]":
    return asyncio.create_task(corpora.search("acme", "handbook", "leave"))


async def test_searches_at_the_same_time_load_a_corpus_once() -> None:
    store: Any = CountingStore()
    corpora = Corpora(store)
    for _ in range(2):
        found = await asyncio.gather(*(search(corpora) for _ in range(5)))
        assert [len(hits) for hits in found] == [1] * 5
    assert store.loads == 1


async def test_a_cancelled_search_leaves_the_index_to_others() -> None:
    store: Any = CountingStore()
    corpora = Corpora(store)
    await search(corpora)
    for steps in range(6):
        cut_off = search(corpora)
        for _ in range(steps):
            await asyncio.sleep(0)
        cut_off.cancel()
        await asyncio.wait({cut_off})
    await search(corpora)
    assert store.loads == 1


def sharing_a_stream(pages: int) -> bytes:
    writer = PdfWriter()
    [first] = PdfReader(io.BytesIO(make_pdf("All the same."))).pages
    kept = writer.add_page(first)
    for _ in range(pages - 1):
        page = writer.add_blank_page(width=595, height=842)
        for name in ("/Contents", "/Resources"):
            page[NameObject(name)] = kept.raw_get(name)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        (make_pdf("One.", "Two."), 6_000),
        (make_pdf("", ""), 6_000),
        # A byte of text is at most a token, beside the picture of the page.
        (make_pdf("x" * 50_000), 51_600),
        (sharing_a_stream(100), 300_000),
        (make_pdf("Hidden.", password="secret"), 0),
        (b"%PDF-1.7\nno more of it\n%%EOF\n", 0),
        (b"", 0),
    ],
)
async def test_pages_and_their_text_are_counted(data: bytes, tokens: int) -> None:
    assert await pdf_tokens(data, "acme") == tokens


def test_a_short_file_may_have_many_pages() -> None:
    assert len(sharing_a_stream(100)) < 30_000


def test_what_is_not_read_in_time_is_no_less_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_reader, "MEASURING_S", -1.0)
    assert pdf_reader.measure(make_pdf("One.", "Two.")) == {"tokens": PDF_TOKENS}
    assert pdf_reader.measure(sharing_a_stream(100)) == {"tokens": 300_000}


def test_texts_of_annotations_count() -> None:
    writer = PdfWriter()
    writer.add_blank_page(600, 800)
    writer.add_annotation(0, FreeText(text="x" * 50_000, rect=(0, 0, 9, 9)))
    file = io.BytesIO()
    writer.write(file)
    assert pdf_reader.measure(file.getvalue())["tokens"] > 50_000

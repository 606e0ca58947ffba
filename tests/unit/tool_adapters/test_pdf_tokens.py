import io

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText
from pypdf.generic import NameObject

from corpus_documents import make_pdf
from podium_kit.attachments import PDF_TOKENS
from tool_adapters.corpus import pdf_reader
from tool_adapters.corpus.pdf import pdf_tokens


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

"""Builders of documents for corpora, PDFs included."""

import io

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tool_adapters.corpus.models import Document, MediaType


def make_document(
    content: str = "Every employee has 27 days of leave.",
    media_type: MediaType = MediaType.PLAIN,
    id: str = "leave",
    data: bytes = b"",
) -> Document:
    return Document(id, id.title(), content, media_type, f"handbook://{id}", data)


def make_pdf(*pages: str, password: str = "", chapters: tuple[tuple[str, int], ...] = ()) -> bytes:
    """A PDF with a line of text on each page; chapters name a page from 0."""
    writer = PdfWriter()
    for text in pages:
        _add_page(writer, text)
    for title, page in chapters:
        writer.add_outline_item(title=title, page_number=page)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def _add_page(writer: PdfWriter, text: str) -> None:
    page = writer.add_blank_page(width=595, height=842)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 50 800 Td ({text}) Tj ET".encode("latin-1"))
    page[NameObject("/Contents")] = stream

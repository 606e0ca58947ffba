"""A process of its own that reads one PDF: the file on standard input, JSON on standard output.

A PDF is a program in all but name, and a damaged or hostile one can take any time and
memory; here that is this process's time and memory, and there is nothing else in it.
Answers {"pages": [[text, section, page], ...]} or {"error": words}; with the argument "measure"
{"tokens": the most that a model reads of it}.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError

from podium_kit.attachments import PDF_TOKENS
from podium_kit.helper_processes import restrict
from tool_adapters.corpus.limits import HEADING_CHARACTERS_MAX, PDF_TOO_LARGE

PAGES_MAX = 2000
CHARACTERS_MAX = 1_000_000
MEMORY_BYTES_MAX = 1024**3
# Providers count a page as its text and a picture of it: some 1,500 to 3,000 tokens, and more
# where there is more text. A byte of text is at most a token.
PAGE_TOKENS, PICTURE_TOKENS = 3_000, 1_600
MEASURING_S = 20.0


class Unreadable(Exception):
    pass


def main() -> None:
    restrict(MEMORY_BYTES_MAX)
    data, work = sys.stdin.buffer.read(), measure if sys.argv[1:] else read
    sys.stdout.write(json.dumps(work(data)))


def read(data: bytes) -> dict[str, Any]:
    return _answer("pages", lambda: _pages(data))


def measure(data: bytes) -> dict[str, Any]:
    return _answer("tokens", lambda: _tokens(_opened(data)))


def _answer(name: str, work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {name: work()}
    except Unreadable as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": PDF_TOO_LARGE}
    except PyPdfError as error:
        return {"error": f"is no PDF that can be read: {error}"}
    except Exception as error:  # noqa: BLE001 (a damaged file may raise anything)
        return {"error": f"is no PDF that can be read: {type(error).__name__}"}


def _opened(data: bytes) -> PdfReader:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("is encrypted; store it without a password")
    return reader


def _tokens(reader: PdfReader) -> int:
    least, tokens = len(reader.pages) * PAGE_TOKENS, 0
    end_s = time.monotonic() + MEASURING_S
    for page in reader.pages:
        try:
            size = len(page.extract_text().encode(errors="replace")) + _annotations_size(page)
        except Exception:  # noqa: BLE001 (a damaged page may raise anything)
            return max(PDF_TOKENS, least)
        tokens += max(PAGE_TOKENS, PICTURE_TOKENS + size)
        if time.monotonic() > end_s:
            return max(PDF_TOKENS, least, tokens)
    return tokens


def _annotations_size(page: PageObject) -> int:
    """Bytes of the texts of comments, links and form fields, which are no text of the page."""
    entries = [entry for each in page.annotations or () for entry in each.get_object().items()]
    texts = [value.get_object() for _, value in entries]
    return sum(len(text.encode(errors="replace")) for text in texts if isinstance(text, str))


def _pages(data: bytes) -> list[tuple[str, str, int]]:
    reader = _opened(data)
    if len(reader.pages) > PAGES_MAX:
        raise Unreadable(f"has more than {PAGES_MAX} pages; split it")
    pages = list(_texts(reader))
    if not pages:
        raise Unreadable("holds no text; run text recognition on its pages first")
    if sum(len(text) for text, _, _ in pages) > CHARACTERS_MAX:
        raise Unreadable(f"holds more than {CHARACTERS_MAX} characters; split it")
    return pages


def _texts(reader: PdfReader) -> Iterator[tuple[str, str, int]]:
    titles = dict(_outline(reader))
    section = ""
    for number, page in enumerate(reader.pages, start=1):
        section = titles.get(number, section)
        # PostgreSQL stores neither NUL nor half a character.
        text = page.extract_text().replace("\0", "").encode(errors="replace").decode().strip()
        if text:
            yield text, section, number


def _outline(reader: PdfReader) -> Iterator[tuple[int, str]]:
    for entry in reader.outline:
        if not isinstance(entry, list):
            page = reader.get_destination_page_number(entry)
            if page is not None:
                yield page + 1, str(entry.title).replace("\0", "")[:HEADING_CHARACTERS_MAX]


if __name__ == "__main__":
    main()

"""A process of its own that reads one PDF: the file on standard input, JSON on standard output.

A PDF is a program in all but name, and a damaged or hostile one can take any time and
memory; here that is this process's time and memory, and there is nothing else in it.
Answers {"pages": [[text, section, page], ...]} or {"error": words}.
"""

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from tool_adapters.corpus.limits import HEADING_CHARACTERS_MAX, PDF_TOO_LARGE
from tool_adapters.helper_processes import restrict

PAGES_MAX = 2000
CHARACTERS_MAX = 1_000_000
MEMORY_BYTES_MAX = 1024**3


class Unreadable(Exception):
    """The message says what is wrong with the file."""


def main() -> None:
    restrict(MEMORY_BYTES_MAX)
    answer = json.dumps(read(sys.stdin.buffer.read()))
    sys.stdout.write(answer)


def read(data: bytes) -> dict[str, Any]:
    """The pages that have text, or what is wrong with the file."""
    try:
        return {"pages": _pages(data)}
    except Unreadable as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": PDF_TOO_LARGE}
    except PyPdfError as error:
        return {"error": f"is no PDF that can be read: {error}"}
    except Exception as error:  # noqa: BLE001 (a damaged file may raise anything)
        return {"error": f"is no PDF that can be read: {type(error).__name__}"}


def _pages(data: bytes) -> list[tuple[str, str, int]]:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("is encrypted; store it without a password")
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
    """Page and title of the outermost entries of the table of contents."""
    for entry in reader.outline:
        if not isinstance(entry, list):
            page = reader.get_destination_page_number(entry)
            if page is not None:
                yield page + 1, str(entry.title).replace("\0", "")[:HEADING_CHARACTERS_MAX]


if __name__ == "__main__":
    main()

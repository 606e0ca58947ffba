"""The text and the size of PDFs, read in a process that is ended when it takes too long."""

import json

from podium_kit.helper_processes import Helpers
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.limits import PDF_TOO_LARGE
from tool_adapters.corpus.models import Document, Piece

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

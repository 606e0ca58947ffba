"""Server-sent events, the way language models stream (WHATWG HTML, section 9.2)."""

from codecs import BOM_UTF8 as BOM
from collections.abc import AsyncIterator


class EventTooLarge(Exception):
    """An event has more bytes than its reader takes."""


async def event_data(chunks: AsyncIterator[bytes], bytes_max: int) -> AsyncIterator[str]:
    """The data of each event. Raises EventTooLarge."""
    data: list[str] = []
    size_bytes = 0
    async for line in _lines(chunks, bytes_max):
        field, _, value = line.partition(":")
        if not line and data:
            yield "\n".join(data)
            data, size_bytes = [], 0
        elif field == "data":
            # Every line is short enough; together they may not be, and empty ones take room, too.
            size_bytes += len(line)
            if size_bytes > bytes_max:
                raise EventTooLarge
            data.append(value.removeprefix(" "))
    # An event the stream ends in is incomplete and dropped, as the standard says.


async def _lines(chunks: AsyncIterator[bytes], bytes_max: int) -> AsyncIterator[str]:
    rest, first = b"", True
    async for chunk in chunks:
        rest += chunk
        if first and (len(rest) >= len(BOM) or not BOM.startswith(rest)):
            rest, first = rest.removeprefix(BOM), False
        *lines, rest = rest.split(b"\n")
        if max(map(len, (*lines, rest))) > bytes_max:
            raise EventTooLarge
        for line in lines:
            yield line.rstrip(b"\r").decode(errors="replace")

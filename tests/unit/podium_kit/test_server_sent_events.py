from collections.abc import AsyncIterator

import pytest

from podium_kit.server_sent_events import EventTooLarge, event_data

BYTES_MAX = 1000


async def arriving(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_events_come_as_they_were_sent_whatever_the_pieces() -> None:
    stream = arriving(
        b": hello\nda", b"ta: one\r\nid: 7\ndata:two\n", b"\n\ndata: three\n\ndata: cut"
    )
    assert [data async for data in event_data(stream, BYTES_MAX)] == ["one\ntwo", "three"]


@pytest.mark.parametrize("line", [b"data: " + b"x" * 90 + b"\n", b"data:\n", b"data\n"])
async def test_an_event_of_many_short_lines_is_bounded_as_a_whole(line: bytes) -> None:
    stream = arriving(*[line * 10] * 100)
    with pytest.raises(EventTooLarge):
        [data async for data in event_data(stream, BYTES_MAX)]


async def test_any_number_of_small_events_may_come() -> None:
    stream = arriving(*[b"data: " + b"x" * 90 + b"\n\n"] * 100)
    assert len([data async for data in event_data(stream, BYTES_MAX)]) == 100

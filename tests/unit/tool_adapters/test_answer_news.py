"""Events of a call that is being made, as a stream reports them."""

import asyncio

from podium_kit.metering import Usage, UsageSource
from tool_adapters.servicer import AnswerNews

LONG_S = 600.0
NOTHING = Usage((), UsageSource.MEASURED)


async def test_what_is_written_is_reported_at_once_where_nothing_is_gathered() -> None:
    news = AnswerNews()
    events = news.events(0.0)
    news.sent(NOTHING, timed=False)
    assert (await anext(events)).HasField("sent")
    news.wrote("Mars ")
    assert (await anext(events)).part.text == "Mars "
    news.wrote("has ")
    news.wrote("two.")
    news.end()
    assert [event.part.text async for event in events] == ["has two."]


async def test_gathered_parts_are_reported_together_and_not_beside_the_answer() -> None:
    news = AnswerNews()
    events = news.events(0.01)
    news.sent(NOTHING, timed=False)
    assert (await anext(events)).HasField("sent")
    news.wrote("Mars ")
    gathered = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    news.wrote("has ")
    assert (await gathered).part.text == "Mars has "
    news.wrote("two.")
    news.end()
    assert [event async for event in events] == []


async def test_a_call_that_ends_waits_for_no_interval() -> None:
    news = AnswerNews()
    events = news.events(LONG_S)
    news.wrote("Mars has two.")
    ended = asyncio.create_task(anext(events, None))
    await asyncio.sleep(0)
    news.end()
    assert await ended is None

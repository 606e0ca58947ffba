import asyncio
from collections.abc import AsyncIterator, Sequence

from gateway.chat.run import Run
from gateway.models import Outcome, ProgressNote
from podium_kit.rpc.errors import DomainError

Event = ProgressNote | Outcome | DomainError


async def merged(runs: Sequence[Run]) -> AsyncIterator[tuple[int, Event]]:
    """Merges the events of runs, by index; each run ends with an outcome or an error."""
    events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
    following = [asyncio.create_task(_follow(*each, events)) for each in enumerate(runs)]
    try:
        running = len(following)
        while running:
            index, event = await events.get()
            running -= not isinstance(event, ProgressNote)
            yield index, event
    finally:
        for task in following:
            task.cancel()


async def _follow(index: int, run: Run, events: asyncio.Queue[tuple[int, Event]]) -> None:
    try:
        async for event in run.events():
            events.put_nowait((index, event))
    except DomainError as error:
        events.put_nowait((index, error))

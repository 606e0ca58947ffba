"""Group commit: items that arrive while a commit is in flight go out together in the next.

One caller pays one commit; sixty-four callers pay a few. Nothing waits for a timer.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from podium_kit.rpc.errors import DependencyAway, DomainError, Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass
class _Waiting(Generic[Item, Answer]):
    item: Item
    answer: asyncio.Future[Answer] = field(default_factory=asyncio.Future)

    def resolve(self, outcome: Answer | DomainError) -> None:
        # A caller that gave up has cancelled its future; its item is committed all the same.
        if self.answer.done():
            return
        if isinstance(outcome, DomainError):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class GroupCommit(Generic[Item, Answer]):
    """Commits items in groups of at most `weight_max`, one group at a time.

    `commit` answers every item of a group with its result or its own error.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], Awaitable[Sequence[Answer | DomainError]]],
        weight_of: Callable[[Item], int],
        weight_max: int,
    ) -> None:
        self._commit = commit
        self._weight_of = weight_of
        self._weight_max = weight_max
        self._queue: deque[_Waiting[Item, Answer]] = deque()
        self._draining: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Answer:
        waiting: _Waiting[Item, Answer] = _Waiting(item)
        self._queue.append(waiting)
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await waiting.answer

    async def close(self) -> None:
        while self._draining:
            await asyncio.wait({self._draining})

    async def _drain(self) -> None:
        while self._queue:
            await self._settle(self._next_group())
        self._draining = None

    def _next_group(self) -> list[_Waiting[Item, Answer]]:
        group = [self._queue.popleft()]
        weight = self._weight_of(group[0].item)
        while self._queue and weight < self._weight_max:
            group.append(self._queue.popleft())
            weight += self._weight_of(group[-1].item)
        return group

    async def _settle(self, group: list[_Waiting[Item, Answer]]) -> None:
        items = [waiting.item for waiting in group]
        commit = asyncio.ensure_future(self._commit(items))
        await asyncio.wait({commit})
        # The connection it waited on may have been closed on this side, as a gRPC channel is.
        error = DependencyAway() if commit.cancelled() else commit.exception()
        if error is None:
            for waiting, outcome in zip(group, commit.result(), strict=True):
                waiting.resolve(outcome)
        elif isinstance(error, Unavailable) or len(group) == 1:
            for waiting in group:
                waiting.fail(error)
        else:
            # One item's rows were rejected: alone, each of the others succeeds.
            for waiting in group:
                await self._settle([waiting])

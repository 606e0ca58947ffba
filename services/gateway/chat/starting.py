import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from gateway.chat.answer_schemas import enforceable
from gateway.chat.catalogue import ChatModels, Choice
from gateway.chat.runs import DirectCallRunner, DirectRun, EpisodeRun, EpisodeRunner, Run
from gateway.episode_ids import FATE_UNKNOWN, EpisodeId, EpisodeIds
from gateway.errors import InvalidAnswerSchema, UnsupportedParameter
from gateway.models import ListOrder, ToolResults
from gateway.parameters import ignored_header
from podium_kit.rpc.errors import DomainError


class Body(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def answer_parameter(self) -> str: ...
    def ignored(self) -> tuple[str, ...]: ...
    def results(self) -> ToolResults | None: ...
    def order(self, choice: Choice) -> ListOrder: ...


class AnsweredBody(Body, Protocol):
    @property
    def stream(self) -> bool: ...


@dataclass(frozen=True)
class StartedRuns:
    runs: list[Run]
    ignored: tuple[str, ...]

    @property
    def headers(self) -> dict[str, str]:
        return {"x-podium-episode": self.runs[0].episode_id, **ignored_header(self.ignored)}


@dataclass(frozen=True)
class EpisodeStarter:
    catalogue: ChatModels
    episodes: EpisodeRunner
    direct_calls: DirectCallRunner
    episode_ids: EpisodeIds
    wait_s: float
    keepalive_s: float
    cancel_on_disconnect: bool

    async def start(self, body: AnsweredBody, request: Request, count: int = 1) -> StartedRuns:
        """Starts so many, or gives the results to the one that waits for them, before anything is
        sent."""
        choice = await self.catalogue.resolve(body.model)
        if (results := body.results()) is not None:
            if count > 1:
                raise UnsupportedParameter("n", "results continue with one episode; leave it out")
            # The ids of its calls name it, so a client that went away can ask again.
            episode = EpisodeId(results.episode_id, chosen_by_caller=True)
            run = self.part_of(episode, results.turn)
            await run.go_on(results)
            return StartedRuns([run], body.ignored())
        order, loosened = await _order(body, choice)
        order = replace(order, streams=body.stream)
        async with self.episode_ids.starting(request.headers, await request.body()) as episode:
            begun = [self._new(episode.choice(index), choice) for index in range(count)]
            return StartedRuns(await self._started(begun, order), (*body.ignored(), *loosened))

    def _new(self, episode: EpisodeId, choice: Choice) -> Run:
        if choice.tool:
            ends = self.cancel_on_disconnect
            return DirectRun(self.direct_calls, episode, choice, self.wait_s, ends_with_caller=ends)
        return self.part_of(episode)

    async def _started(self, runs: list[Run], order: ListOrder) -> list[Run]:
        """All of them, or none: what is rejected takes back those before it.

        Those of a caller's key continue: the same request, sent again, finds them.
        """
        for index, run in enumerate(runs):
            try:
                await run.start(order.choice(index, len(runs)))
            except DomainError as error:
                if not isinstance(error, FATE_UNKNOWN):
                    await _leave(runs[:index], "another choice of its request was rejected")
                raise
        return runs

    async def prompt_tokens(self, body: Body) -> int:
        order, _ = await _order(body, await self.catalogue.orchestrator(body.model))
        return await self.episodes.count_tokens(order)

    def part_of(self, episode: EpisodeId, answered_turn: int = 0) -> EpisodeRun:
        return EpisodeRun(self.episodes, episode, self.wait_s, answered_turn)

    async def left(self, *runs: Run) -> None:
        if self.cancel_on_disconnect:
            await _leave(runs, "the client disconnected")

    @asynccontextmanager
    async def waited_for(self, *runs: Run) -> AsyncIterator[None]:
        """Leaves them when the block is cancelled, as by the end of a drain."""
        try:
            yield
        except asyncio.CancelledError:
            await asyncio.shield(self.left(*runs))
            raise


async def _order(body: Body, choice: Choice) -> tuple[ListOrder, tuple[str, ...]]:
    order, parameter = body.order(choice), body.answer_parameter
    schema = await enforceable(order.answer_schema, parameter)
    names = [f"{parameter}:{place}" for place in schema.loosened]
    for tool in order.client_tools:
        place = f"tools.{tool.name}"
        # The registry loosens it as well, and rejects one that is unusable.
        with suppress(InvalidAnswerSchema):
            found = await enforceable(tool.parameters_schema, place)
            names += [f"{place}:{each}" for each in found.loosened]
    return replace(order, answer_schema=schema.text), tuple(names)


async def _leave(runs: Sequence[Run], reason: str) -> None:
    await asyncio.gather(*(run.leave(reason) for run in runs))


T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result, or None when the client went away first; its body must have been read."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

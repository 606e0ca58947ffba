"""The episode of a request: a new one, or the one that waits for the results in it."""

from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from gateway.chat.catalogue import Catalogue, Choice
from gateway.chat.episode_run import EpisodeRun, Episodes
from gateway.episode_ids import EpisodeId, EpisodeIds
from gateway.models import EpisodeOrder, ToolResults


class Body(Protocol):
    """A request that is served as an episode."""

    @property
    def model(self) -> str: ...
    def results(self) -> ToolResults | None: ...
    def order(self, choice: Choice) -> EpisodeOrder: ...


@dataclass(frozen=True)
class EpisodeStarter:
    """What requests are answered with."""

    catalogue: Catalogue
    episodes: Episodes
    episode_ids: EpisodeIds
    wait_s: float
    keepalive_s: float
    cancel_on_disconnect: bool

    async def run(self, body: Body, request: Request) -> EpisodeRun:
        """Starts it, or gives it the results, before anything is sent."""
        choice = await self.catalogue.resolve(body.model)
        if (results := body.results()) is not None:
            # The ids of its calls name it, so a client that went away can ask again.
            episode = EpisodeId(results.episode_id, chosen_by_caller=True)
            run = self.part_of(episode, results.turn)
            await run.go_on(results)
            return run
        order = body.order(choice)
        async with self.episode_ids.starting(request.headers, await request.body()) as episode:
            run = self.part_of(episode)
            await run.start(order)
        return run

    def part_of(self, episode: EpisodeId, answered_turn: int = 0) -> EpisodeRun:
        """Of an episode that is to be started or answered: from the turn on that is answered."""
        return EpisodeRun(self.episodes, episode, self.wait_s, answered_turn)

    async def left(self, run: EpisodeRun) -> None:
        """The client went away."""
        if self.cancel_on_disconnect:
            await run.leave()

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.faults import inflict, prepared
from chaos.gathering import billed, observed
from chaos.invariants import checked
from chaos.load import Load, Started
from chaos.not_possible import NotPossible
from chaos.pairs import Round
from chaos.scene import Scene
from chaos.scripts import Task, sound_tasks
from chaos.table import Outcome
from chaos.tools import TOOLS_OF

# So that episodes are in every part of their lives when it happens.
BEFORE_S = 2.0
BETWEEN_STARTS_S = 0.4
# Of a start, beside the longest fault.
ACCEPT_S = 150.0


@dataclass
class Rounds:
    scene: Scene
    seed: int
    episodes: int
    stall_s: float
    say: Callable[[str], None]
    number: int = 0

    async def make(self, one: Round, tasks: list[Task] | None = None) -> Outcome:
        self.number += 1
        # A start may have to wait for the end of the fault.
        load = Load(self.scene, accept_s=ACCEPT_S + self.stall_s)
        names = [f"{self.seed}-{self.number}-{count}" for count in range(self.episodes)]
        given = tasks or sound_tasks(names)
        try:
            async with prepared(self.scene, one):
                return await self._attended(one, load, given)
        except NotPossible as error:
            return Outcome(one, None, not_possible=str(error))

    async def _attended(self, one: Round, load: Load, given: list[Task]) -> Outcome:
        attending = asyncio.create_task(load.attend())
        try:
            return await self._made(one, load, given)
        finally:
            attending.cancel()
            await asyncio.wait({attending})

    async def _made(self, one: Round, load: Load, given: list[Task]) -> Outcome:
        billed_before = billed(self.scene)
        starting = asyncio.create_task(self._started(load, given))
        await asyncio.sleep(BEFORE_S)
        self.say(f"{one}: {len(given)} episodes")
        try:
            await inflict(self.scene, one, self.stall_s)
            not_possible = ""
        except NotPossible as error:
            not_possible = str(error)
        over = time.monotonic()
        started = await starting
        accepted = [episode for episode in started if episode is not None]
        ended = await load.ended(accepted)
        recovery_s = time.monotonic() - over
        excused = TOOLS_OF.get(one.victim, frozenset())
        blocked = started.count(None)
        seen = await observed(self.scene, accepted, ended, blocked, excused, billed_before)
        if not_possible:
            return Outcome(one, None, recovery_s, not_possible)
        return Outcome(one, checked(seen), recovery_s)

    async def _started(self, load: Load, tasks: list[Task]) -> list[Started | None]:
        """One after the other, so that the fault meets starts, too."""
        running = []
        for task in tasks:
            running.append(asyncio.create_task(load.start(task)))
            await asyncio.sleep(BETWEEN_STARTS_S)
        return list(await asyncio.gather(*running))

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.faults import inflict, prepared
from chaos.gathering import billed, observed
from chaos.invariants import Verdict, checked
from chaos.load import Load, Started
from chaos.plan import NotPossible, Round
from chaos.scene import Scene
from chaos.scripts import TOOLS_OF, Task, sound_tasks

COLUMNS = (
    "victim",
    "fault",
    "accepted",
    "finished",
    "failed",
    "lost",
    "charged twice",
    "not on stream",
    "unknown",
    "other",
    "recovered after",
)


@dataclass(frozen=True)
class Outcome:
    round: Round
    verdict: Verdict | None
    recovery_s: float = 0.0
    not_possible: str = ""

    @property
    def is_bad(self) -> bool:
        return self.verdict is not None and bool(self.verdict.violations)


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, outcomes)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(outcome: Outcome) -> tuple[str, ...]:
    one, seen = outcome.round, outcome.verdict
    if seen is None:
        return (one.victim, one.fault, f"not possible: {outcome.not_possible}", *[""] * 8)
    counts = (
        seen.accepted,
        seen.finished,
        seen.failed,
        seen.lost,
        seen.charged_twice,
        seen.missing_on_stream,
        seen.unknown_effects,
        _others(seen),
    )
    return (one.victim, one.fault, *map(str, counts), f"{outcome.recovery_s:.1f} s")


def _others(seen: Verdict) -> int:
    named = seen.failed + seen.lost + seen.charged_twice + seen.missing_on_stream
    return len(seen.violations) - named


def left_out_lines(left_out: Mapping[Round, str]) -> str:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for one, reason in left_out.items():
        by_reason.setdefault((one.fault, reason), []).append(one.victim)
    return "\n".join(
        f"no {fault} of {', '.join(names)}: {reason}"
        for (fault, reason), names in by_reason.items()
    )


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

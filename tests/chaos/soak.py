"""`python -m chaos.soak`: faults and poison at random for hours, while three tenants run episodes.

The faults are those of `python -m chaos`, in an order that the seed decides; among the episodes are
tasks whose provider answers nonsense. Prints a row for each fault, and at the end a table and what
grew. Ends with status 1 when anything was lost, doubled, blocked or left behind, when memory, disk
or connections grew beyond their bounds, or when no tool of some kind answered.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from dataclasses import dataclass, field

from chaos.invariants import Verdict, merged
from chaos.leaks import (
    MIB,
    Taken,
    adopt_orphans,
    grown,
    growth_table,
    known_processes,
    left_behind,
    orphans,
    taken,
)
from chaos.plan import random_rounds
from chaos.rounds import Outcome, Rounds, table
from chaos.scene import Scene, running_scene
from chaos.scripts import Task, poison_task, sound_tasks, unanswered_kinds
from podium_cli.command import stopping_on_sigterm
from temporary_files import server_folder

EPISODES, POISON = 9, 3
STALLS_S = (2.0, 40.0)
# For what is on its way to its end.
GRACE_S = 60.0


@dataclass
class Soak:
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    measured: list[Taken] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def sum(self) -> Verdict:
        return merged(one.verdict for one in self.outcomes if one.verdict)

    @property
    def problems(self) -> list[str]:
        total = self.sum
        too_much = [one.reason for one in grown(self.measured) if one.reason]
        kinds = unanswered_kinds(total.answering_tools) if self.outcomes else []
        return [*total.violations, *self.left, *too_much, *kinds]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="chaos.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=2.0, help="0.1 is six minutes")
    parser.add_argument("--seed", type=int, help="of everything that is at random; one at random")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    logging.basicConfig(level=logging.WARNING, format="  %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    print(f"seed {seed}, {given.hours:g} hours: repeat it with SEED={seed}", flush=True)
    soak = asyncio.run(soaked(seed, given.hours * 3600))
    total = soak.sum
    print(f"\n{table(soak.outcomes)}\n\n{growth_table(soak.measured)}\n")
    print(
        f"seed {seed}: {len(soak.outcomes)} faults, {total.accepted} episodes, {total.finished} "
        f"finished, {total.unknown_effects} effects of unknown outcome, {total.repeats} replies of "
        "experts that were lost and asked for again"
    )
    print("\n".join(soak.problems) or "nothing lost, doubled or left behind")
    sys.exit(1 if soak.problems else 0)


async def soaked(seed: int, seconds: float) -> Soak:
    soak, choice, begun = Soak(seed), random.Random(seed), time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)

    adopt_orphans()
    with server_folder("soak") as folder, stopping_on_sigterm():
        async with running_scene(folder) as scene:
            soak.measured.append(await taken(scene, time.monotonic() - begun, 0))
            ready = time.monotonic()
            making = Rounds(scene, seed, EPISODES, 0.0, lambda _: None)
            for one in random_rounds(seed):
                # A start takes minutes on a busy machine, and a run without a fault proves nothing.
                if soak.outcomes and time.monotonic() - ready > seconds:
                    break
                making.stall_s = choice.uniform(*STALLS_S)
                outcome = await making.make(one, _tasks(seed, len(soak.outcomes), choice))
                soak.outcomes.append(outcome)
                now_s = time.monotonic() - begun
                soak.measured.append(await taken(scene, now_s, soak.sum.accepted))
                say(_row(outcome, soak.measured[-1], len(soak.outcomes)))
            soak.left = await _left(scene, soak)
    return soak


async def _left(scene: Scene, soak: Soak) -> list[str]:
    deadline = time.monotonic() + GRACE_S
    while True:
        strays = [
            f"{one.name()} {one.pid} runs on its own" for one in orphans(known_processes(scene))
        ]
        now = await taken(scene, soak.measured[-1].at_s, soak.sum.accepted)
        left = [*strays, *left_behind(soak.measured[0], now)]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(1.0)


def _tasks(seed: int, number: int, choice: random.Random) -> list[Task]:
    names = [f"{seed}-soak-{number}-{count}" for count in range(EPISODES)]
    tasks = sound_tasks(names[POISON:])
    tasks += [poison_task(name, choice) for name in names[:POISON]]
    choice.shuffle(tasks)
    return tasks


def _row(outcome: Outcome, now: Taken, number: int) -> str:
    seen = outcome.verdict
    came = f"not possible: {outcome.not_possible}" if seen is None else f"{seen.finished} finished"
    lines = [
        f"{number} {outcome.round}: {came}, {outcome.recovery_s:.1f} s after the fault; "
        f"{now.memory_bytes // MIB} MiB, {now.disk_bytes // MIB} MiB on disk, "
        f"{now.processes} processes, {now.connections} connections",
        *(seen.violations if seen else []),
    ]
    return "\n           ".join(lines)


if __name__ == "__main__":
    main()

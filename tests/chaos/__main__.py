"""`python -m chaos`: every fault of every part of a whole platform, while episodes run.

The platform is the one of `podium up`, with a scripted model server and a service outside that
counts its effects. After each fault every episode must have ended well, its effects and charges
must be there once, and stream, ledger and provider must agree to the last digit. Prints a table at
the end; ends with status 1 when anything was lost, doubled or blocked. Some faults take root.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Sequence

from chaos.invariants import merged
from chaos.plan import Round, UnknownRound, left_out, planned
from chaos.rounds import Outcome, Rounds, left_out_lines, table
from chaos.scene import running_scene
from chaos.scripts import unanswered_kinds
from podium_cli.command import stopping_on_sigterm
from temporary_files import server_folder

EPISODES = 8
STALL_S = 40.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="of the order of the rounds; one at random")
    parser.add_argument("--rounds", type=int, help="how many at most")
    parser.add_argument(
        "--only", action="append", default=[], help="a victim, a fault or victim:fault; repeatable"
    )
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each round")
    parser.add_argument("--stall-s", type=float, default=STALL_S, help="how long a stall lasts")
    parser.add_argument("--list", action="store_true", help="say which rounds there are, and why")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    try:
        rounds = planned(seed, given.rounds, given.only)
    except UnknownRound as error:
        parser.error(str(error))
    if given.list:
        print("\n".join(map(str, rounds)), left_out_lines(left_out()), sep="\n")
        return
    logging.basicConfig(level=logging.WARNING, format="  %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    print(f"seed {seed}, {len(rounds)} rounds: repeat it with SEED={seed}", flush=True)
    outcomes: list[Outcome] = []
    try:
        asyncio.run(made(rounds, seed, given.episodes, given.stall_s, outcomes))
    finally:
        report(outcomes, seed)
    sys.exit(1 if any(one.is_bad for one in outcomes) else 0)


def report(outcomes: Sequence[Outcome], seed: int) -> None:
    print(f"\n{table(outcomes)}\n\n{left_out_lines(left_out())}")
    bad = sum(one.is_bad for one in outcomes)
    answering = merged(one.verdict for one in outcomes if one.verdict).answering_tools
    kinds = unanswered_kinds(answering) or ["tools of every kind answered"]
    print("", *kinds, sep="\n")
    print(f"\nseed {seed}: {len(outcomes)} faults, {bad} with something lost or wrong", flush=True)


async def made(
    rounds: Sequence[Round], seed: int, episodes: int, stall_s: float, outcomes: list[Outcome]
) -> None:
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)

    # What is mounted is unmounted, however it ends.
    with server_folder("chaos") as folder, stopping_on_sigterm():
        async with running_scene(folder) as scene:
            making = Rounds(scene, seed, episodes, stall_s, say)
            for one in rounds:
                outcome = await making.make(one)
                outcomes.append(outcome)
                say(_line(outcome, f"{len(outcomes)}/{len(rounds)}"))


def _line(outcome: Outcome, progress: str) -> str:
    seen = outcome.verdict
    if seen is None:
        return f"{progress} {outcome.round}: not possible: {outcome.not_possible}"
    head = f"{progress} {outcome.round}: {seen.finished} of {seen.accepted} finished, "
    lines = [f"{head}{outcome.recovery_s:.1f} s after the fault", *seen.violations]
    return "\n           ".join(lines)


if __name__ == "__main__":
    main()

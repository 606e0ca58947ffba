"""`make bench-capacity`: what an episode costs each part, and what more processes bring.

Two cores stand for many: each process of what is scaled is held to a share of one, and the rest has
what is left. Several are compared with what one of them did.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from bench.capacity import replicas
from bench.capacity.profile import shares
from bench.capacity.quotas import is_possible
from bench.episodes.processor import processor_seconds
from bench.episodes.product import Product, running_product
from bench.figures import Figures, say

MODEL_CALLS = 4
# Latency that is waited for is not what is measured: short, so that few episodes keep cores busy.
MODEL_DELAY_S = 0.1
CONCURRENT = 64
FLAT = (1, 16, 256, 2000)
PROCESSES = (1, 2, 4, 8)
# Such shares that eight processes have as much as the machine can use, and one an eighth of it.
WORKER_CORES, LEDGER_CORES = 0.06, 0.02
IDLE_S = 10.0
PARTS = ("flat", "scaling", "profile")
PROFILED = ("episodes_worker", "episodes", "cost_ledger", "orchestrator_inference", "tool_adapters")
SHARES_SHOWN = 12


@dataclass(frozen=True)
class Cost:
    episode_ms: float
    """Processor time for an episode."""

    idle_cores: float
    """Cores that it takes when nothing runs."""


async def main(episodes: int, parts: list[str]) -> None:
    figures = Figures("capacity")
    async with running_product(MODEL_DELAY_S, MODEL_CALLS) as product:
        await product.load(CONCURRENT, 2 * CONCURRENT)
        costs, most = await measure_costs(figures, product, episodes)
        if "flat" in parts:
            await measure_flatness(figures, product, costs, episodes)
        if "scaling" in parts:
            await measure_scaling(figures, product, most)
        if "profile" in parts:
            await measure_shares(figures, product, episodes)
    figures.write()


async def measure_costs(
    figures: Figures, product: Product, episodes: int
) -> tuple[list[Cost], float]:
    """Returns the cost by part, and the episodes a second that were finished meanwhile."""
    say("what an episode costs each part")
    before = by_part(product)
    await asyncio.sleep(IDLE_S)
    idle = {name: (now - before[name]) / IDLE_S for name, now in by_part(product).items()}
    before = by_part(product)
    load = await product.load(CONCURRENT, episodes)
    seconds = episodes / load.per_second
    costs = {
        name: Cost(1000 * (now - before[name] - idle[name] * seconds) / episodes, idle[name])
        for name, now in by_part(product).items()
    }
    for name, cost in sorted(costs.items(), key=lambda each: -each[1].episode_ms):
        text = f"{cost.episode_ms:.1f} ms an episode, {cost.idle_cores:.3f} cores idle"
        figures.note(f"costs.{name}", text)
    predicted = shared(list(costs.values()))
    figures.note("shared.measured", str(load))
    figures.note("shared.predicted_per_second", round(predicted, 2))
    figures.ratio("capacity.shared_over_predicted", load.per_second / predicted, ">=", 0.8)
    return list(costs.values()), load.per_second


def shared(costs: list[Cost]) -> float:
    cores = (psutil.cpu_count() or 1) - sum(cost.idle_cores for cost in costs)
    return 1000 * cores / sum(cost.episode_ms for cost in costs)


async def measure_flatness(
    figures: Figures, product: Product, costs: list[Cost], episodes: int
) -> None:
    say("cost at several concurrencies")
    idle = sum(cost.idle_cores for cost in costs)
    found = {}
    for concurrent in FLAT:
        total = max(min(episodes, 40 * concurrent), concurrent)
        before = sum(by_part(product).values())
        load = await product.load(concurrent, total)
        spent = sum(by_part(product).values()) - before - idle * total / load.per_second
        found[concurrent] = 1000 * spent / total
        figures.note(f"flat.at_{concurrent}", f"{found[concurrent]:.1f} ms an episode, {load}")
        figures.ratio(f"capacity.failed_at_{concurrent}", load.failed, "<=", 0)
    figures.ratio("capacity.cost_at_2000_over_16", found[2000] / found[16], "<=", 1.2)


async def measure_scaling(figures: Figures, product: Product, most: float) -> None:
    """Workers and ledgers of a set share of a core each: several against what one did."""
    if not is_possible():
        say("  left out: root and a writable control group are needed to hold a process to a share")
        return
    for name, cores, running in (
        (replicas.WORKER, WORKER_CORES, replicas.workers),
        (replicas.LEDGER, LEDGER_CORES, replicas.ledgers),
    ):
        alone, off = 0.0, 1.0
        for count in PROCESSES:
            say(f"{count} of {name}, {cores} cores each")
            predicted = min(count * alone, most)
            # A share this small stands still for most of the time: only many fill it.
            concurrent = count * CONCURRENT
            async with running(product.platform, count, cores, concurrent):
                measured = (await product.load(concurrent, 2 * concurrent)).per_second
            figures.note(f"scaling.{name}.{count}", f"{measured:.2f} of {predicted:.2f} episodes/s")
            if alone:
                off = max(off, measured / predicted, predicted / measured)
            else:
                alone = measured
        figures.ratio(f"capacity.{name}_off_by", off, "<=", 1.2)


async def measure_shares(figures: Figures, product: Product, episodes: int) -> None:
    for name in PROFILED:
        say(f"profile of {name}")
        pid = product.platform.processes[name].pid or 0
        found = await shares(pid, product.load(CONCURRENT, episodes))
        largest = list(found.items())[:SHARES_SHOWN]
        figures.note(f"profile.{name}", ", ".join(f"{each} {share:.0%}" for each, share in largest))


def by_part(product: Product) -> Mapping[str, float]:
    parts = {
        name: processor_seconds([process.pid])
        for name, process in product.platform.processes.items()
        if process.pid
    }
    # All of them are our children.
    return parts | {
        "model server and caller": processor_seconds([os.getpid()]) - sum(parts.values())
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--episodes", type=int, default=640, help="most of each measurement")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        sys.exit(f"no part {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    asyncio.run(main(options.episodes, options.parts))

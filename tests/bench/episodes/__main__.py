"""`make bench-episodes`: the product against its floors, in one run."""

import asyncio
import statistics

from bench.episodes.floor import TemporalFloor, running_floor
from bench.episodes.floor_worker import FloorInput
from bench.episodes.inference import measure_inference
from bench.episodes.peers import PEERS, measure_peer
from bench.episodes.product import Product, running_product
from bench.episodes.recovery import measure_recovery
from bench.figures import Figures, measure_parts, say

OVERHEAD_TURNS = 20
OVERHEAD_RUNS = 7
# Four model calls, a tool call in between each two: seven durable steps.
MODEL_CALLS = 4
MODEL_DELAY_S = 0.5
CONCURRENCIES = {1: 3, 40: 80, 50: 100, 256: 384}
HISTORY_TURNS = 100
HISTORY_TURN_BYTES = 20_000
PEER = "LangGraph, PostgreSQL"
PEER_ROUNDS = 3


async def measure_overhead(figures: Figures) -> None:
    """Per-turn time beyond model and tool, one episode at a time, against no-op activities."""
    say("overhead per turn")
    async with running_floor() as floor:
        one = await _floor_ms_per_turn(floor, steps_per_turn=1)
        two = await _floor_ms_per_turn(floor, steps_per_turn=2)
    async with running_product(delay_s=0.0, turns=OVERHEAD_TURNS) as product:
        ours = await _product_ms_per_turn(product)
    figures.note("overhead.floor_ms_per_turn_1_activity", round(one, 2))
    figures.note("overhead.floor_ms_per_turn_2_activities", round(two, 2))
    figures.note("overhead.product_ms_per_turn", round(ours, 2))
    # A turn makes two steps durable: the model call and the tool call.
    figures.ratio("episode.overhead_per_turn", ours / two, "<=", 1.5)
    figures.ratio("episode.overhead_per_turn_one_activity", ours / one, "<=", 1.5)


async def measure_throughput(figures: Figures) -> None:
    """Episodes of four model calls of half a second, at several concurrencies."""
    say("throughput")
    plan = FloorInput(MODEL_CALLS, 2, MODEL_DELAY_S)
    async with running_floor() as floor:
        await floor.run(plan)
        floors = {c: await floor.load(plan, c, n) for c, n in CONCURRENCIES.items()}
    async with running_product(MODEL_DELAY_S, MODEL_CALLS) as product:
        ours, processor_ms = await product.loads(CONCURRENCIES)
    busiest = max(CONCURRENCIES)
    async with running_product(MODEL_DELAY_S, MODEL_CALLS, versioned=True) as product:
        production, production_ms = await product.loads({busiest: CONCURRENCIES[busiest]})
    for concurrent in CONCURRENCIES:
        figures.note(f"throughput.floor_at_{concurrent}", str(floors[concurrent]))
        figures.note(f"throughput.product_at_{concurrent}", str(ours[concurrent]))
        ratio = ours[concurrent].per_second / floors[concurrent].per_second
        figures.ratio(f"episode.throughput_at_{concurrent}", ratio, ">=", 0.7)
    figures.note(f"throughput.production_at_{busiest}", str(production[busiest]))
    figures.note("throughput.production_processor_ms", production_ms)
    figures.note("throughput.processor_ms", processor_ms)
    figures.ratio("episode.processor_ms_at_256", processor_ms[busiest], "<=", 90)
    failed = sum(load.failed for load in ours.values())
    figures.ratio("episode.failed", failed, "<=", 0)
    for peer in PEERS:
        say(f"peer: {peer.name}")
        found = await measure_peer(peer, MODEL_DELAY_S, MODEL_CALLS, CONCURRENCIES)
        figures.note(f"peer.{peer.name}", found)
        ratio = ours[busiest].per_second / found[busiest]["per_second"]
        figures.note(f"throughput_at_256_over.{peer.name}", round(ratio, 2))


async def measure_against_peer(figures: Figures) -> None:
    """The busiest load and the peer's in turns: a machine's speed changes within minutes."""
    [peer] = (each for each in PEERS if each.name == PEER)
    busiest = max(CONCURRENCIES)
    plan = {busiest: CONCURRENCIES[busiest]}
    rates, costs = [], []
    for number in range(PEER_ROUNDS):
        say(f"round {number + 1} of {PEER_ROUNDS} against {PEER}")
        async with running_product(MODEL_DELAY_S, MODEL_CALLS) as product:
            # As many warm the peer up.
            await product.load(busiest, busiest)
            loads, processor_ms = await product.loads(plan)
        theirs = (await measure_peer(peer, MODEL_DELAY_S, MODEL_CALLS, plan))[busiest]
        figures.note("peer.ours", str(loads[busiest]))
        figures.note("peer.theirs_per_second", round(theirs["per_second"], 2))
        figures.note("peer.processor_ms", (processor_ms[busiest], round(theirs["processor_ms"], 1)))
        rates.append(loads[busiest].per_second / theirs["per_second"])
        costs.append(processor_ms[busiest] / theirs["processor_ms"])
    rate, cost = statistics.median(rates), statistics.median(costs)
    figures.ratio("episode.throughput_against_peer_at_256", rate, ">=", 1)
    figures.ratio("episode.processor_against_peer_at_256", cost, "<=", 1.2)


async def measure_history(figures: Figures) -> None:
    """Bytes of history and of storage for a hundred turns of twenty kilobytes."""
    say("history")
    async with running_product(0.0, HISTORY_TURNS, HISTORY_TURN_BYTES) as product:
        seconds, episode = await product.run()
        size = await product.size(episode.id)
    figures.note("history.turns", episode.turn_count)
    figures.note("history.seconds", round(seconds, 2))
    figures.note("history.stored_bytes", size.stored)
    figures.note("history.history_bytes", size.history)
    figures.ratio("episode.history_mb_at_100_turns", size.history / 1e6, "<=", 0.105)


async def _floor_ms_per_turn(floor: TemporalFloor, steps_per_turn: int) -> float:
    plan = FloorInput(OVERHEAD_TURNS, steps_per_turn, 0.0)
    await floor.run(plan)
    runs = [await floor.run(plan) for _ in range(OVERHEAD_RUNS)]
    return 1000 * statistics.median(runs) / OVERHEAD_TURNS


async def _product_ms_per_turn(product: Product) -> float:
    await product.run()
    runs = []
    for _ in range(OVERHEAD_RUNS):
        seconds, episode = await product.run()
        runs.append(seconds - await product.tool_seconds(episode.id))
    return 1000 * statistics.median(runs) / OVERHEAD_TURNS


PARTS = {
    "overhead": measure_overhead,
    "throughput": measure_throughput,
    "peer": measure_against_peer,
    "history": measure_history,
    "recovery": measure_recovery,
    "inference": measure_inference,
}

if __name__ == "__main__":
    asyncio.run(measure_parts("episodes", __doc__, PARTS))

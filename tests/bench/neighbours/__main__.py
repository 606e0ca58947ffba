"""`make bench-neighbours`: tenant B's latency alone, and beside tenant A's flood of each service.

On one platform as `podium up` starts it, with a scripted model. Prints a Markdown table and ends
with status 1 when a call of B failed, or took more than LIMIT times as long.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.figures import say
from bench.neighbours.rows import ROWS, Row, fill_library
from bench.neighbours.tenant import PATIENCE_S, CallFailed, Receiver, Tenant, tenant
from e2e.conftest import MODEL, SCRIPT, WEBHOOK_SECRET
from local_platforms import local_platform
from openai_server import OpenAiServer
from temporary_files import server_folder

FLOOD_S, ALONE_S = 8.0, 4.0
# Bounds a flood whose requests are answered quickly.
REQUESTS_MAX = 2_000
LIMIT = 3.0
# Below it, the times are the machine's rather than the neighbour's.
FLOOR_S = 0.25
FLOODING, CALLING = "evil", "bank"
SETTINGS = {
    "tool_adapters": {
        "allowed_hosts": '["127.0.0.1"]',
        **{f"secret_{name}__hooks": WEBHOOK_SECRET for name in (FLOODING, CALLING)},
    }
}
HEADER = (
    "| service | flood by A | B's call | B alone p95 | B beside the flood p95 | times | failed |\n"
    "|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Measured:
    seconds: list[float]
    failed: int

    @property
    def p95(self) -> float:
        return sorted(self.seconds)[round(0.95 * (len(self.seconds) - 1))]


@dataclass(frozen=True)
class Outcome:
    row: Row
    alone: Measured
    beside: Measured

    @property
    def times(self) -> float:
        return self.beside.p95 / max(self.alone.p95, FLOOR_S)

    @property
    def failed(self) -> int:
        return self.alone.failed + self.beside.failed

    def line(self) -> str:
        cells = [
            self.row.service,
            self.row.flood_name,
            self.row.call_name,
            f"{self.alone.p95:.2f} s of {len(self.alone.seconds)}",
            f"{self.beside.p95:.2f} s of {len(self.beside.seconds)}",
            f"{self.times:.1f}",
            str(self.failed),
        ]
        return f"| {' | '.join(cells)} |\n"


async def main(only: str) -> int:
    rows = [row for row in ROWS if only in f"{row.service}:{row.flood_name}"]
    if not rows:
        known = ", ".join(f"{row.service}:{row.flood_name}" for row in ROWS)
        raise SystemExit(f"no row contains {only!r}; there are {known}")
    async with running() as (evil, bank):
        await fill_library(bank)
        await bank.subscribe("quick", "/quick")
        outcomes = [await measured(row, evil, bank) for row in rows]
    sys.stdout.write(
        f"p95 in seconds of B's calls, one after the other; times: at most {LIMIT:g}, over the p95"
        f" alone or {FLOOR_S:g} s, whichever is more.\n\n{HEADER}"
    )
    sys.stdout.writelines(outcome.line() for outcome in outcomes)
    return int(any(outcome.failed or outcome.times > LIMIT for outcome in outcomes))


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Tenant, Tenant]]:
    receiver = Receiver()
    with (
        server_folder("neighbours") as folder,
        OpenAiServer(script=SCRIPT, models=[MODEL], delay_s=0.2) as model,
    ):
        options = {"telemetry": False, "settings": SETTINGS}
        async with (
            local_platform(folder, model.base_url, MODEL, **options) as (platform, _),
            receiver.serving(),
            tenant(platform, FLOODING, receiver) as evil,
            tenant(platform, CALLING, receiver) as bank,
        ):
            yield evil, bank


async def measured(row: Row, evil: Tenant, bank: Tenant) -> Outcome:
    """B's call alone, then beside the flood, which ends by itself."""
    say(f"{row.service}: {row.flood_name}")
    if row.prepare:
        await row.prepare(evil)
    # The first call of its kind is slower.
    await row.call(bank)
    alone = await calls(row, bank, ALONE_S)
    flooding = asyncio.create_task(flood(row, evil))
    await asyncio.sleep(1)
    beside = await calls(row, bank, FLOOD_S - 1)
    say(f"  the flood's answers: {dict(await flooding)}")
    outcome = Outcome(row, alone, beside)
    say(f"  {outcome.line().strip()}")
    return outcome


async def calls(row: Row, bank: Tenant, duration_s: float) -> Measured:
    seconds: list[float] = []
    failed = 0
    end = time.monotonic() + duration_s
    while not seconds or time.monotonic() < end:
        started = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await row.call(bank)
        except (CallFailed, TimeoutError) as error:
            failed += 1
            say(f"  B's call failed: {error!r}")
        seconds.append(time.monotonic() - started)
    return Measured(seconds, failed)


async def flood(row: Row, evil: Tenant) -> Counter[str]:
    """A's requests until the time or their number is up, and all are answered; the answers."""
    answers: Counter[str] = Counter()
    end = time.monotonic() + FLOOD_S

    async def client() -> None:
        while time.monotonic() < end and answers.total() < REQUESTS_MAX:
            try:
                await row.flood(evil)
                answers["ok"] += 1
            except CallFailed as error:
                answers[str(error)[:90]] += 1
                await asyncio.sleep(0.02)

    await asyncio.gather(*(client() for _ in range(row.at_once)))
    await evil.settle()
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose service:flood contains it")
    sys.exit(asyncio.run(main(parser.parse_args().only)))

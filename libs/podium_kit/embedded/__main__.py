"""`python -m podium_kit.embedded`: install vLLM and the default model into the cache."""

import asyncio
import sys

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.environment import Progress as Report
from podium_kit.embedded.vllm.environment import VllmEnvironment


async def install() -> None:
    environment = VllmEnvironment()
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as bars:
        await environment.install(_bar(bars))
        await SmolLM2().convert(environment, _bar(bars))


def _bar(bars: Progress) -> Report:
    bar = bars.add_task("starting", total=1.0)
    return lambda step, done: bars.update(bar, description=step, completed=done)


if __name__ == "__main__":
    try:
        asyncio.run(install())
    except EmbeddedError as error:
        sys.exit(str(error))

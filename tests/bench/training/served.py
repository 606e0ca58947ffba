import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Figures, say
from bench.training.drift import measure_drift
from bench.training.publishing import RANK, measure_publishing
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.server import EmbeddedVllm

NAME = "base"


async def run() -> None:
    figures = Figures("training_served")
    with TemporaryDirectory(prefix="podium-bench-") as text:
        folder = Path(text)
        model, log_path = SmolLM2().directory, folder / "vllm.log"
        server = EmbeddedVllm(model, NAME, free_port(), log_path=log_path, adapter_rank_max=RANK)
        say("starting vLLM")
        await server.start()
        try:
            await measure_drift(figures, folder, server.base_url, NAME)
            await measure_publishing(figures, folder / "store", server.base_url)
        finally:
            await server.stop()
    figures.write()


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))

"""Records histories of rollouts: `python -m workflows.record_rollout_histories`.

Run it when the workflow gains a way to go. Histories that ran are never changed.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from episodes.workflows.connection import connect_temporal
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from workflows.record_histories import without_machine
from workflows.running_rollouts import ScriptedRollouts, make_run, running

FOLDER = Path(__file__).parent / "rollout_histories"
RUNS = {"named": make_run("01936b2f-3c00-7000-8000-000000000001"), "scheduled": make_run()}


async def main() -> None:
    with TemporaryDirectory(prefix="podium-temporal-") as folder:
        temporal = EmbeddedTemporal(Path(folder), free_port())
        await temporal.start()
        client = await connect_temporal(temporal.target, "default")
        for name, run in RUNS.items():
            async with running(client, ScriptedRollouts(groups=5), run) as handle:
                await handle.result()
                history = (await handle.fetch_history()).to_json()
            (FOLDER / f"{name}.json").write_text(without_machine(history))
        await temporal.stop()


if __name__ == "__main__":
    asyncio.run(main())

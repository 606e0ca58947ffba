"""`python -m bench.orchestrators`: who orchestrates held-out tasks best, and at what cost.

Three orchestrators, each on a whole platform of its own (vLLM, tools, ledger), on the same
held-out tasks with the same tools under three preferences. The expert among the tools is no
model: see `expert.py` for how strong and how dear it is said to be.

Every episode is kept as it ends. Interrupted, it prints the table of what there is, and the same
command resumes from there.
"""

import argparse
import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from bench.figures import OUTPUT_FOLDER, Figures
from bench.orchestrators.arms import Arm, Course, run_arm
from bench.orchestrators.expert import RIGHT_PROBABILITY, THINKING_S, expert_server
from bench.orchestrators.journal import Journal
from bench.orchestrators.report import show
from podium_cli.local.engines import EngineChoice, trained_model
from podium_cli.local.installation import ensure_engine_installed
from podium_training.rollouts.ids import run_id_from
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import FAMILIES, generate

# Tool subsets and ids follow from it; the date is of no account.
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


async def run(options: argparse.Namespace) -> None:
    """All arms, one after the other; a table and its figures, however it ends."""
    families = options.family or list(FAMILIES)
    tasks = generate(options.count, Split.HELD_OUT, options.seed, families)
    run_id = run_id_from(STARTED, uuid.UUID(int=options.seed))
    course = Course(run_id, tasks, options.tools)
    await ensure_engine_installed(EngineChoice(), True, Console(stderr=True))
    journal = Journal(OUTPUT_FOLDER / "orchestrators.jsonl", _asked(options, families))
    figures = Figures("orchestrators")
    try:
        with expert_server(tasks, options.seed, options.expert_seconds) as expert:
            for arm in Arm:
                await run_arm(arm, course, expert.base_url, journal)
    finally:
        show(journal, figures)
        figures.note("tasks", len(tasks))
        figures.note("expert.right_probability", RIGHT_PROBABILITY)
        figures.note("expert.seconds", options.expert_seconds)
        figures.write()


def _asked(options: argparse.Namespace, families: list[str]) -> dict[str, Any]:
    """What makes two runs one: the options, and the policy that is measured."""
    asked = vars(options) | {"family": families}
    return asked | {"policy": trained_model().directory.name}


def main() -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(
        prog="bench.orchestrators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=16, help="held-out tasks")
    parser.add_argument("--tools", type=int, default=6, help="most tools beside the expert")
    parser.add_argument("--seed", type=int, default=0, help="of tasks and tools")
    parser.add_argument(
        "--expert-seconds", type=float, default=THINKING_S, help="how long the expert takes"
    )
    parser.add_argument("--family", action="append", help="like arithmetic; all by default")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()

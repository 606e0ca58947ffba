"""`python -m bench.orchestrators`: who orchestrates held-out tasks best, and at what cost.

Each model has a whole platform of its own (vLLM, tools, ledger); rules are played beside the
bundled policy. All solve the same held-out tasks with the same tools and prices under seven
preference vectors. The experts among the tools are simulated: bundled/experts.yaml says how often
they are right, and how long they take. A study changes what no training showed: preferences,
prices, experts or tools.

Every episode is stored as it ends. Interrupted, it prints the table of what there is, and the same
command resumes from there. The table of a study that ended is written to docs/studies.
"""

import argparse
import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from bench.figures import OUTPUT_FOLDER, Figures, say
from bench.orchestrators.arms import PROMPT_ONLY, START, TRAINED, Course, arms, run_arms
from bench.orchestrators.experts import serving_experts
from bench.orchestrators.journal import Journal
from bench.orchestrators.page import write_page
from bench.orchestrators.practice import practice_tasks
from bench.orchestrators.report import Comparison, show
from bench.orchestrators.study import USUAL, Study, read_study, renamed, study_names
from podium_cli.up.installation import ensure_engine_installed
from podium_kit.embedded.vllm.adapted_model import AdaptedModel
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_operations.local.engines import TRAINED_NAME, EngineChoice, trained_model
from podium_training.rollouts.plan import run_id_from
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import FAMILIES, generate

# Tool subsets and ids follow from it; the date is of no account.
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


async def run(options: argparse.Namespace) -> None:
    families = options.family or list(FAMILIES)
    study = read_study(options.study)
    courses = [_course(options, study, seed, families) for seed in options.seed]
    tasks = [task for course in courses for task in course.tasks]
    await ensure_engine_installed(EngineChoice(), True, Console(stderr=True))
    others = {name: await _merged(name, version) for name, version in options.others.items()}
    compared = arms(study, others)
    asked = _asked(options, families, study)
    journal = Journal(OUTPUT_FOLDER / f"orchestrators-{options.study}.jsonl", asked)
    figures = Figures("orchestrators")
    try:
        with TemporaryDirectory(prefix="podium-bench-") as folder:
            # Competence is learnt from tasks of the first seed.
            known = [*tasks, *practice_tasks(study, options.seed[0], families)]
            experts = serving_experts(Path(folder), study.pool, known, options.seed[0])
            async with experts as tool:
                await run_arms(compared, courses, tool, journal)
        write_page(options.study, Comparison(study, compared, courses, journal), asked)
    finally:
        show(Comparison(study, compared, courses, journal), figures)
        figures.note("tasks", len(tasks))
        figures.write()


def _course(options: argparse.Namespace, study: Study, seed: int, families: list[str]) -> Course:
    tasks = generate(options.count, Split.HELD_OUT, seed, families)
    run_id = run_id_from(STARTED, uuid.UUID(int=seed))
    return Course(
        seed, families, run_id, study, renamed(tasks, study), options.tools, options.withhold
    )


async def _merged(name: str, version: Path) -> Path:
    say(f"merging {version} as {name}")
    model = AdaptedModel(TRAINED_NAME, version)
    await model.merge(VllmEnvironment(), lambda _what, _share: None)
    return model.directory


def _asked(options: argparse.Namespace, families: list[str], study: Study) -> dict[str, Any]:
    others = {name: str(version) for name, version in options.others.items()}
    asked = vars(options) | {"family": families, "others": others}
    conditions = study.model_dump(mode="json")
    trained = trained_model()
    measured = {"version": trained.adapter.name, "policy": trained.directory.name}
    return asked | {"conditions": conditions, **measured}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.orchestrators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--study", choices=study_names(), default=USUAL, help="what differs from training"
    )
    parser.add_argument("--count", type=int, default=24, help="held-out tasks of each seed")
    parser.add_argument("--tools", type=int, default=6, help="most tools beside the experts")
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[2, 3, 4], help="of tasks, tools and experts"
    )
    parser.add_argument(
        "--withhold", type=float, default=0.35, help="share of tasks without their own tools"
    )
    parser.add_argument("--family", action="append", help="like arithmetic; all by default")
    parser.add_argument(
        "--start", type=_version, help="folder of the version that training began at"
    )
    parser.add_argument(
        "--control",
        type=_named,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="another version to beat, such as one of the same start and compute that imitates",
    )
    options = parser.parse_args()
    starts = [(START, options.start)] if options.start else []
    options.others = dict([*starts, *options.control])
    if len(options.others) < len(starts) + len(options.control):
        parser.error("argument --control: two versions have one name")
    del options.start, options.control
    asyncio.run(run(options))


def _named(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    if name in ("", START, TRAINED) or name.startswith(("always ", "rule: ", PROMPT_ONLY)):
        raise argparse.ArgumentTypeError(f"{text}: not NAME=FOLDER with a name of its own")
    return name, _version(folder)


def _version(folder: str) -> Path:
    if not (Path(folder) / "manifest.json").is_file():
        raise argparse.ArgumentTypeError(f"{folder}: not the folder of a version of a policy")
    return Path(folder)


if __name__ == "__main__":
    main()

"""`python -m podium_training.curriculum run.yaml`: puts demonstrations in order for a run.

    podium train rollout --task-file a.jsonl --size 1 --policies-per-task 12 --always ask_expert
    podium train rollout --task-file b.jsonl --size 1 --tools 0
    python -m podium_training.curriculum run.yaml
    python -m podium_training.grpo run.yaml

It reads the episodes of a platform and writes those of every step, one step behind the other, to
the topic that the run reads (`stream.topic`), which it makes. With --questions TASKS and --experts
POOL the first turns of a step are of those tasks, played or not, every family as often as the
others, and the first command plays each of its tasks once, at prices of its own.
"""

import argparse
import asyncio
import sys
from itertools import islice
from pathlib import Path
from random import Random

from kafka.errors import KafkaError

from podium_kit.client.errors import UserError
from podium_kit.stream import BrokerUnavailable
from podium_training.curriculum.errors import NoCurriculum
from podium_training.curriculum.likings import LIKED
from podium_training.curriculum.offers import Offers
from podium_training.curriculum.steps import Mix, steps
from podium_training.curriculum.topic import demonstrated, write
from podium_training.demonstrations.solutions import NoDemonstration, Solutions
from podium_training.experts.pool import InvalidPool, Pool, read_pool
from podium_training.grpo.config import InvalidConfig, RunConfig, read_config
from podium_training.grpo.data.stream import LogCut
from podium_training.tasks.files import read_train_tasks
from podium_training.tasks.task import Task

# Of a question: under a vector, and with each of those models liked.
CHOICES_MAX = 1 + LIKED
# Tasks, and the experts that the demonstrator would ask.
Asking = tuple[list[Task], Pool]
FAULTS = (
    BrokerUnavailable,
    InvalidConfig,
    InvalidPool,
    KafkaError,
    LogCut,
    NoCurriculum,
    NoDemonstration,
    OSError,
    UserError,
)


def main() -> int:
    """Exit status 2 for what the caller can correct."""
    arguments = _arguments()
    mix = Mix(
        tasks=arguments.tasks,
        choices=arguments.choices,
        asked=arguments.asked,
        own=arguments.own,
        lists=arguments.lists,
        liked=tuple(arguments.liked),
    )
    try:
        config = read_config(arguments.config)
        _check(config, mix, arguments.source)
        count = _order(config, mix, arguments, _asking(arguments))
    except FAULTS as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{config.stream.topic}: {config.steps} steps, {count} episodes\n")
    return 0


def _check(config: RunConfig, mix: Mix, source: str) -> None:
    if config.step.groups != mix.groups:
        raise NoCurriculum(
            f"step.groups is {config.step.groups} and a step here is of {mix.groups}: correct one"
        )
    if config.stream.topic == source:
        raise NoCurriculum(f"stream.topic is {source}, which is read: name a new topic there")


def _asking(arguments: argparse.Namespace) -> Asking | None:
    if bool(arguments.questions) != bool(arguments.experts):
        raise NoCurriculum("--questions and --experts go together: give both or neither")
    if not arguments.questions:
        if arguments.liked:
            raise NoCurriculum("--liked is of questions: give --questions, or leave it out")
        return None
    if arguments.choices > CHOICES_MAX:
        raise NoCurriculum(
            f"--choices is {arguments.choices}: with --questions at most {CHOICES_MAX}"
        )
    pool = read_pool(arguments.experts)
    if unknown := set(arguments.liked) - {each.alias for each in pool.experts}:
        raise NoCurriculum(f"--liked {min(unknown)}: {arguments.experts} has no such model")
    return read_train_tasks(arguments.questions), pool


def _order(
    config: RunConfig, mix: Mix, arguments: argparse.Namespace, asking: Asking | None
) -> int:
    found, left_out = demonstrated(config.stream, arguments.source)
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
    sys.stderr.write(f"{len(found)} solved episodes; left out: {reasons or 'none'}\n")
    # After the reading: these imports take seconds, and a fault is reported at once.
    from transformers import AutoTokenizer  # noqa: PLC0415

    from podium_training.curriculum.demonstrated_turn import Demonstrator  # noqa: PLC0415
    from podium_training.curriculum.questions import MARGIN, first_turns  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(config.model, local_files_only=True)
    random = Random(arguments.seed)  # noqa: S311 chance, not a secret
    questions = None
    if asking is not None:
        demonstrator = Demonstrator(Solutions(*asking, MARGIN), tokenizer)
        offers = Offers(found, arguments.expert)
        questions = first_turns(asking[0], offers, mix, demonstrator, random)
    endless = steps(found, arguments.expert, mix, tokenizer, random, questions=questions)
    return asyncio.run(write(config.stream, islice(endless, config.steps)))


def _arguments() -> argparse.Namespace:
    default = Mix()
    parser = argparse.ArgumentParser(
        prog="curriculum", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("config", type=Path, help="the run's file")
    parser.add_argument("--source", default="trajectories.v1", help="topic to read")
    parser.add_argument("--expert", default="ask_expert", help="tool whose models are experts")
    parser.add_argument("--questions", type=Path, help="JSONL of tasks to contrast, played or not")
    parser.add_argument("--experts", type=Path, help="YAML like bundled/experts.yaml, for those")
    parser.add_argument(
        "--liked", action="append", default=[], help="model that is liked, of those; all by default"
    )
    parser.add_argument("--tasks", type=int, default=default.tasks, help="contrasted in a step")
    parser.add_argument("--choices", type=int, default=default.choices, help="of each of them")
    parser.add_argument("--asked", type=int, default=default.asked, help="whole, with experts")
    parser.add_argument("--own", type=int, default=default.own, help="whole, without experts")
    parser.add_argument("--lists", type=int, default=default.lists, help="of tools, for those")
    parser.add_argument("--seed", type=int, default=1, help="the same one gives the same order")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

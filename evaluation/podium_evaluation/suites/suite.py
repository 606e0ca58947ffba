"""Suites: items that are the same for everybody, and the key under which results compare."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version

from podium.episodes.v1 import check_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.suites import conversations, questions
from podium_evaluation.suites.run_file import CONVERSATIONS, RunFile, Source, SuiteOptions
from podium_kit.client.errors import UsageError
from podium_kit.verifiers.environment import EnvironmentCheck
from podium_kit.verifiers.llm_judge import LlmJudge
from podium_training.tasks.files import read_tasks, task_digest
from podium_training.tasks.loaders.errors import UnreadableSource
from podium_training.tasks.task import Split, Task

# Of the packages whose cases or generators the items are.
PACKAGES = {Source.BFCL: "bfcl-eval", Source.REASONING_GYM: "reasoning-gym"}
OWN_PACKAGE = "podium-platform"
# How a trial is played: one episode, whose orchestrator calls tools until it answers.
SCAFFOLD = "podium-episode"
# The same with the environment's functions, one of which speaks to the user.
CONVERSATION_SCAFFOLD = "podium-conversation"


@dataclass(frozen=True)
class Suite:
    name: str
    tasks: Sequence[Task]
    left_out: int = 0
    """Questions of the source that nothing here can score."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """The benchmark, its version and the digest of its file."""

    @property
    def judges(self) -> list[str]:
        """Tools of kind llm that its checks ask, each as `TOOL` or `TOOL/ALIAS`."""
        return sorted({judge for check in self._judging for judge in check.judges})

    @property
    def judges_of_other_families(self) -> list[str]:
        """Returns the judges that may not judge a model of their own family."""
        strict = [check for check in self._judging if not check.allow_own_family]
        return sorted({judge for check in strict for judge in check.judges})

    def allowing_own_family(self) -> "Suite":
        allowed = {"allow_own_family": True}
        judged = (LlmJudge.name, EnvironmentCheck.name)
        tasks = [
            replace(task, parameters={**task.parameters, **allowed})
            if task.verifier in judged
            else task
            for task in self.tasks
        ]
        return replace(self, tasks=tasks)

    @property
    def users(self) -> list[str]:
        """Tools of kind llm that play the users of its conversations."""
        conversations = [each for each in self._judging if isinstance(each, EnvironmentCheck)]
        return sorted({each.user_model for each in conversations})

    @property
    def _judging(self) -> list[LlmJudge | EnvironmentCheck]:
        checks = (task.judge() for task in self.tasks)
        return [each for each in checks if isinstance(each, LlmJudge | EnvironmentCheck)]

    def items(self) -> list[pb.EvaluationItem]:
        return [_item(task) for task in self.tasks]


def load_suite(options: SuiteOptions) -> Suite:
    """Raises UsageError, with the cause and what fixes it."""
    if options.digest and options.file and task_digest(options.file) != options.digest:
        raise UsageError(
            f"{options.file} has not the digest {options.digest[:12]}…",
            f"restore the file, or state its own: {task_digest(options.file)}",
        )
    name = options.name or _name(options)
    if options.source in CONVERSATIONS:
        tasks, origin = conversations.load(options)
        return _filled(Suite(name, tasks, origin=origin))
    try:
        tasks, left_out = LOADERS[options.source](options)
    except UnreadableSource as error:
        raise UsageError(error.cause, error.fix) from error
    return _filled(Suite(name, tasks, left_out, _origin(options)))


def _filled(suite: Suite) -> Suite:
    if not suite.tasks:
        raise UsageError("the suite is empty", "ask for other families or another file")
    return suite


def comparability_key(
    suite: Suite, run: RunFile, tool_versions: Mapping[str, str]
) -> dict[str, str]:
    """Returns what two runs must share to be compared; the service adds the items' digest.

    Arms differ in model, policy, tools and sampling: that is what a comparison is about.
    """
    verifiers = sorted({f"{task.verifier} {task.judge().version}" for task in suite.tasks})

    def versions(names: Sequence[str]) -> str:
        found = [f"{name} version {tool_versions.get(tool_of(name), 'unknown')}" for name in names]
        return ", ".join(found) or "none"

    return {
        **suite.origin,
        "left_out": str(suite.left_out),
        "verifiers": ", ".join(verifiers),
        "judges": versions(suite.judges),
        "users": versions(suite.users),
        "turn_limit": str(run.turn_limit),
        "time_limit_s": f"{run.time_limit:g}",
        "trial_usd": f"{run.trial_usd:f}" if run.trial_usd else "no limit",
        "scaffold": CONVERSATION_SCAFFOLD if suite.users else SCAFFOLD,
        "crashes": "unjudged",
    }


def tool_of(model: str) -> str:
    """The tool of `TOOL` or `TOOL/ALIAS`."""
    return model.partition("/")[0]


def _families(options: SuiteOptions) -> tuple[list[Task], int]:
    # The families use the bundled tools, which are slow to import.
    from podium_training.tasks.taskset import FAMILIES, TooFewTasks, generate  # noqa: PLC0415

    names = options.families or tuple(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        raise UsageError(f"there is no family {unknown[0]!r}", f"use {', '.join(FAMILIES)}")
    try:
        return generate(options.count, Split.HELD_OUT, options.seed, names), 0
    except TooFewTasks as error:
        raise UsageError(str(error), "ask for fewer, or for more families") from error


def _tasks(options: SuiteOptions) -> tuple[list[Task], int]:
    assert options.file is not None
    found = read_tasks(options.file)
    wanted = [each for each in found if not options.families or each.family in options.families]
    return wanted[: options.count], 0


def _questions(options: SuiteOptions) -> tuple[list[Task], int]:
    assert options.file is not None
    return questions.load(options.file, options.count, options.judges)


def _bfcl(options: SuiteOptions) -> tuple[list[Task], int]:
    from podium_training.tasks.loaders import bfcl  # noqa: PLC0415

    return bfcl.load(options.count, Split.HELD_OUT, options.families), 0


def _reasoning_gym(options: SuiteOptions) -> tuple[list[Task], int]:
    from podium_training.tasks.loaders import reasoning_gym  # noqa: PLC0415

    families = options.families
    return reasoning_gym.load(options.count, Split.HELD_OUT, options.seed, families), 0


def _paper(options: SuiteOptions) -> tuple[list[Task], int]:
    from podium_training.tasks.loaders import paper  # noqa: PLC0415

    assert options.file is not None
    families, judges = options.families, options.judges
    return paper.load(options.file, options.count, Split.HELD_OUT, families, judges), 0


LOADERS: Mapping[Source, Callable[[SuiteOptions], tuple[list[Task], int]]] = {
    Source.FAMILIES: _families,
    Source.TASKS: _tasks,
    Source.QUESTIONS: _questions,
    Source.BFCL: _bfcl,
    Source.REASONING_GYM: _reasoning_gym,
    Source.PAPER: _paper,
}


def _name(options: SuiteOptions) -> str:
    if options.domain:
        return f"{options.environment or options.source}/{options.domain}"[:128]
    of = options.file.stem if options.file else ",".join(options.families) or "all"
    return f"{options.source}/{of}"[:128]


def _origin(options: SuiteOptions) -> dict[str, str]:
    package = PACKAGES.get(options.source, OWN_PACKAGE)
    try:
        origin = {"benchmark": options.source.value, package: version(package)}
    except PackageNotFoundError:
        origin = {"benchmark": options.source.value, package: "unknown"}
    if options.file is not None:
        # The file decides, whichever version reads it.
        origin = {"benchmark": options.source.value, "file": task_digest(options.file)}
    return origin


def _item(task: Task) -> pb.EvaluationItem:
    calls = [
        pb.ExpectedCall(tool_name=call.tool, arguments_json=json.dumps(call.arguments))
        for call in task.solution or ()
    ]
    check = check_pb2.Check(
        verifier=task.verifier,
        verifier_version=task.judge().version,
        parameters_json=json.dumps(task.parameters),
    )
    return pb.EvaluationItem(
        id=task.id,
        family=task.family,
        question=task.question,
        check=check,
        expected_calls=calls,
        replay_of=task.replay_of,
    )

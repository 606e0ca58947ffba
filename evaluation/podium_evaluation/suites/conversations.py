"""Conversations with a simulated user, as the program of their environment lists them."""

from podium_evaluation.environments.lines import Values
from podium_evaluation.environments.programs import ask_for_suite
from podium_evaluation.suites.run_file import SuiteOptions
from podium_kit.client.errors import UsageError
from podium_kit.verifiers import InvalidVerifier
from podium_kit.verifiers.environment import EnvironmentCheck
from podium_training.tasks.task import Call, Split, Task

SHOWN_MAX = 5


def load(options: SuiteOptions) -> tuple[list[Task], dict[str, str]]:
    """The items, and what runs share that play them. Raises UsageError."""
    name = options.environment or options.source.value
    asked = {
        "domain": options.domain,
        "split": options.split,
        "file": str(options.file.absolute()) if options.file else "",
    }
    found = ask_for_suite(name, asked)
    try:
        listed = _wanted(options, {str(each["id"]): each for each in found["tasks"]})
        tasks = [_task(name, options, each) for each in listed]
        key = {str(part): str(value) for part, value in found["key"].items()}
    except (KeyError, TypeError, InvalidVerifier) as error:
        raise UsageError(f"{name} lists what is no suite: {error}", "fix its program") from error
    if not options.judges and (judged := [each["id"] for each in listed if each.get("judged")]):
        raise UsageError(
            f"{len(judged)} of the {len(listed)} conversations are judged by a model, such as"
            f" {', '.join(judged[:SHOWN_MAX])}",
            "name a `judge`, a tool of kind llm, or other `items`",
        )
    return tasks, {"benchmark": name, "domain": options.domain, "split": options.split, **key}


def _wanted(options: SuiteOptions, listed: dict[str, Values]) -> list[Values]:
    if unknown := [id for id in options.items if id not in listed]:
        raise UsageError(
            f"there is no conversation {unknown[0]}",
            f"use ids like {', '.join(list(listed)[:SHOWN_MAX])}",
        )
    return [listed[id] for id in options.items or listed][: options.count]


def _task(name: str, options: SuiteOptions, listed: Values) -> Task:
    parameters = {
        "environment": name,
        "domain": options.domain,
        "task": listed["task"],
        "user_model": options.user,
        "judges": list(options.judges),
    }
    calls = listed.get("calls")
    task = Task(
        id="/".join(filter(None, (name, options.domain, str(listed["id"])))),
        family=options.domain or name,
        split=Split.HELD_OUT,
        question=listed["question"],
        verifier=EnvironmentCheck.name,
        parameters=parameters,
        solution=None if calls is None else tuple(Call(*call) for call in calls),
    )
    task.judge()
    return task

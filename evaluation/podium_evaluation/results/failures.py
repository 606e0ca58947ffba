"""Classifies why a trial did not solve its item, by its trajectory."""

import json
from collections.abc import Sequence
from enum import StrEnum

from podium.episodes.v1 import trajectory_pb2
from podium_evaluation.results.trials import TrialResult


class FailureClass(StrEnum):
    BUDGET = "budget"
    GAVE_UP = "gave up"
    FORMAT = "format"
    TOOL_FAILED = "tool failed"
    WRONG_TOOL = "wrong tool"
    WRONG_ARGUMENTS = "wrong arguments"
    WRONG_ANSWER = "wrong answer"


MEANINGS = {
    FailureClass.BUDGET: "its own budget ended it",
    FailureClass.GAVE_UP: "it came to no answer within its turns, tokens or time",
    FailureClass.FORMAT: "an action could not be read, and no tool was called",
    FailureClass.TOOL_FAILED: "its last call failed",
    FailureClass.WRONG_TOOL: "a tool that leads to the answer was not called",
    FailureClass.WRONG_ARGUMENTS: "that tool was called with other arguments",
    FailureClass.WRONG_ANSWER: "none of these: what it answered is wrong",
}
GAVE_UP = ("turn_limit", "deadline", "output_limit")


def failure_class(trial: TrialResult, trajectory: trajectory_pb2.Trajectory) -> FailureClass:
    """The first of the classes, in their order, that fits."""
    if trial.stop_reason == "budget_exhausted":
        return FailureClass.BUDGET
    if trial.stop_reason in GAVE_UP:
        return FailureClass.GAVE_UP
    calls = [call for turn in trajectory.turns for call in turn.tool_invocations]
    actions = [turn.model_call.response.action for turn in trajectory.turns]
    if not calls and any(action.HasField("malformed") for action in actions):
        return FailureClass.FORMAT
    if calls and calls[-1].observation.HasField("failure"):
        return FailureClass.TOOL_FAILED
    return _of_calls(trial.expected_calls, calls)


def _of_calls(
    expected: Sequence[tuple[str, str]], calls: Sequence[trajectory_pb2.ToolInvocation]
) -> FailureClass:
    called = [call.observation.call for call in calls]
    names = {call.tool_name for call in called}
    if any(tool not in names for tool, _ in expected):
        return FailureClass.WRONG_TOOL
    made = {(call.tool_name, _plain(call.arguments_json)) for call in called}
    if any((tool, _plain(arguments)) not in made for tool, arguments in expected):
        return FailureClass.WRONG_ARGUMENTS
    return FailureClass.WRONG_ANSWER


def _plain(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments

"""A scripted agent that plays a task of tau2, and a scripted judge.

It runs in the environment of the benchmark as well, so it imports the standard library alone.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any

DONE = "All of it is done."
PLEASE = "Please do this: "
IDLE, GOLDEN = "idle", "golden"
# Of 1.0, and it only reads: what is installed has no such function.
LATER_FUNCTION = "get_item_details"

Values = dict[str, Any]


def steps(task: Mapping[str, Any], way: str) -> list[Values]:
    """The calls of the agent: the golden actions, and what is to be communicated; idle: neither."""
    criteria = task.get("evaluation_criteria") or {}
    if way == IDLE:
        return [{"tool": "tell_user", "arguments": {"text": DONE}}]
    actions = criteria.get("actions") or []
    made = [step(action) for action in actions if action["name"] != LATER_FUNCTION]
    known = " ".join(criteria.get("communicate_info") or [])
    return [*made, {"tool": "tell_user", "arguments": {"text": f"{DONE} {known}".strip()}}]


def step(action: Mapping[str, Any]) -> Values:
    if action.get("requestor", "assistant") == "assistant":
        return {"tool": action["name"], "arguments": action["arguments"]}
    call = json.dumps({"function": action["name"], "arguments": action["arguments"]})
    return {"tool": "tell_user", "arguments": {"text": f"{PLEASE}{call}"}}


def judged(prompt: str) -> str:
    """Every assertion holds of a conversation that has more in it than the end."""
    conversation, _, assertions = prompt.partition("expectedOutcomes:")
    right = "tool:" in conversation
    results = [
        {"expectedOutcome": each, "reasoning": "scripted", "metExpectation": right}
        for each in ast.literal_eval(assertions.strip())
    ]
    return json.dumps({"results": results})

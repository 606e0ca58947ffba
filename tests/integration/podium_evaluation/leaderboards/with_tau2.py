"""The verdicts of tau2's own evaluator on its own runs: a line for each task, in and out.

Where the evaluator raises the verdict is null.
"""

import itertools
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from golden_tau2 import DONE, PLEASE, judged, steps
from loguru import logger
from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import Task
from tau2.evaluator import evaluator_nl_assertions
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.registry import registry
from tau2.utils.utils import get_now


def verdict(domain: str, task: Any, way: str) -> float:
    task = Task.model_validate(task)
    environment = registry.get_env_constructor(domain)()
    initial = task.initial_state
    messages = list((initial and initial.message_history) or [])
    environment.set_state(
        initialization_data=initial and initial.initialization_data,
        initialization_actions=initial and initial.initialization_actions,
        message_history=messages,
    )
    messages.append(UserMessage(role="user", content="Hello"))
    numbers = itertools.count()
    for step in steps(task.model_dump(mode="json"), way):
        text = step["arguments"].get("text", "") if step["tool"] == "tell_user" else ""
        wanted, requestor = step, "assistant"
        if step["tool"] == "tell_user":
            messages.append(AssistantMessage(role="assistant", content=text))
            if text.startswith(DONE):
                messages.append(UserMessage(role="user", content="###STOP###"))
                break
            asked = json.loads(text.removeprefix(PLEASE))
            wanted, requestor = {"tool": asked["function"], "arguments": asked["arguments"]}, "user"
        call = ToolCall(
            id=str(next(numbers)),
            name=wanted["tool"],
            arguments=wanted["arguments"],
            requestor=requestor,
        )
        kind = AssistantMessage if requestor == "assistant" else UserMessage
        messages.append(kind(role=requestor, tool_calls=[call]))
        messages.append(environment.get_response(call))
    run = SimulationRun(
        id="own",
        task_id=task.id,
        start_time=get_now(),
        end_time=get_now(),
        duration=0.0,
        termination_reason=TerminationReason.USER_STOP,
        messages=messages,
    )
    basis = [str(getattr(each, "value", each)) for each in task.evaluation_criteria.reward_basis]
    words = "NL_ASSERTION" in basis
    kind = EvaluationType.ALL_WITH_NL_ASSERTIONS if words else EvaluationType.ALL
    return float(evaluate_simulation(run, task, kind, False, domain).reward)


def judge(model: str, messages: Sequence[Any], **_: Any) -> AssistantMessage:
    return AssistantMessage(role="assistant", content=judged(messages[-1].content))


if __name__ == "__main__":
    logger.remove()
    evaluator_nl_assertions.generate = judge
    output, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        found: float | None = None
        with suppress(Exception):
            found = verdict(**json.loads(line))
        print(json.dumps(found), file=output, flush=True)

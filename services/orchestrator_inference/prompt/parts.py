"""The sentences both prompt layouts share."""

from orchestrator_inference.models import Action, Observation, Situation
from orchestrator_inference.prompt.toolset import Toolset

ONE_CALL = '{"tool": name, "arguments": {...}}'
SEVERAL_CALLS = '{"calls": [{"tool": name, "arguments": {...}}, ...]}'
MUST_ANSWER = 'This is the last turn: give the final answer now, as {"answer": text}.'
CHOOSE = "Choose the next tool to call, or give the final answer if it is known."


def system_line(toolset: Toolset, calls_max: int) -> str:
    """Who the model is, how it replies, and its tools. The same on every turn, so that
    engines find it in their prefix cache.
    """
    call = ONE_CALL if calls_max == 1 else SEVERAL_CALLS
    lines = ["You are good at using tools. Reply with one JSON object."]
    if toolset.listing:
        lines += [f"To call a tool: {call}", 'To finish: {"answer": text}']
        lines += ["Tools:", toolset.listing]
    else:
        lines.append('Reply with {"answer": text}.')
    return "\n".join(lines)


def problem(situation: Situation) -> str:
    """The task, with the tenant's preference behind it as in the paper."""
    return f"{situation.task}\n\n{situation.instruction}".strip()


def request_line(situation: Situation) -> str:
    return MUST_ANSWER if situation.must_answer or not situation.tools else CHOOSE


def call_text(observation: Observation) -> str:
    return f"{observation.call.tool_name} {observation.call.arguments_json}"


def outcome_text(observation: Observation) -> str:
    """What the call gave: its content, or an error that cannot be taken for content."""
    if observation.failure is None:
        return observation.content
    return f"error ({observation.failure.kind.value}): {observation.failure.message}"


def malformed_text(action: Action) -> str:
    """Why a reply of the model was no action; empty when it was one."""
    if action.malformed is None:
        return ""
    return f"error ({action.malformed.kind.value}): {action.malformed.message}"

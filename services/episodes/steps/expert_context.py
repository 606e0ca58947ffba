"""What an expert model gets besides the task: the findings of earlier turns."""

from episodes.steps.log import StepLog

CONTEXT_BYTES_MAX = 24_000


def expert_context(log: StepLog, turn: int) -> str:
    """Results of the calls before a turn, newest kept when there is too much."""
    findings = [
        f"{call.observation.call.tool_name}({call.observation.call.arguments_json}):\n"
        f"{call.observation.content}"
        for number in sorted(log.tool_calls)
        if number < turn
        for _, call in sorted(log.tool_calls[number].items())
        if call.observation.content
    ]
    text = "\n\n".join(findings).encode()
    return text[-CONTEXT_BYTES_MAX:].decode(errors="ignore")

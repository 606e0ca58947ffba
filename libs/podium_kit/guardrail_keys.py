"""Keys of the questions that a call puts to the servers of guardrails.

The worker holds money under them before the call, and the adapters name those that they asked.
"""

MARK = "/guardrail/"


def guardrail_key(call_key: str, stage: str, index: int) -> str:
    """Returns the key of a call's guardrail by its index in the list that reads the call."""
    return f"{call_key}{MARK}{stage}/{index}"


def call_of_guardrail(key: str) -> str | None:
    """Returns the key of the call that a guardrail reads; None for the key of a call."""
    call_key, mark, _ = key.partition(MARK)
    return call_key if mark else None

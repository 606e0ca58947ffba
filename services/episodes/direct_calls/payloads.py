"""What passes between a call's workflow and its activities: never a text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CallInput:
    """Asks to make a call; its tool answers within a time."""

    call_id: str
    timeout_s: float


@dataclass(frozen=True)
class CallFailed:
    """Asks to end a call that the platform could not make, and says why."""

    call_id: str
    message: str

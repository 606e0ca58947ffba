from collections.abc import Iterable
from difflib import get_close_matches

from podium_kit.failures import FailureKind, ToolFailure

LETTERS_MIN = 4


class FunctionFailed(Exception):
    """Carries the typed failure the model, the reward and the ledger see."""

    def __init__(self, failure: ToolFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def invalid(message: str) -> FunctionFailed:
    return FunctionFailed(ToolFailure(FailureKind.INVALID_ARGUMENTS, message))


def not_found(message: str) -> FunctionFailed:
    return FunctionFailed(ToolFailure(FailureKind.NOT_FOUND, message))


def tool_error(message: str) -> FunctionFailed:
    """The question is understood and has no answer, for example a division by zero."""
    return FunctionFailed(ToolFailure(FailureKind.TOOL_ERROR, message))


def limit_exceeded(message: str) -> FunctionFailed:
    return FunctionFailed(ToolFailure(FailureKind.LIMIT_EXCEEDED, message))


def closest(written: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or nothing. Codes of three letters are all alike."""
    if len(written) < LETTERS_MIN:
        return ""
    names = (name for name in known if len(name) >= LETTERS_MIN)
    return next(iter(get_close_matches(written.casefold(), names, n=1, cutoff=0.8)), "")

"""Guardrails as the adapters apply them, and what they come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar

from podium_kit.failures import ToolFailure
from tool_adapters.models import GuardrailDecision, Stage

REDACTED = "[redacted]"


def mark(length: int) -> str:
    """Replaces text of that length, and is never longer: a hold covers what is sent."""
    return REDACTED if length >= len(REDACTED) else "*" * length


class GuardrailAction(StrEnum):
    BLOCK = "block"
    REDACT = "redact"
    FLAG = "flag"


@dataclass(frozen=True)
class Reading:
    """The texts that a guardrail reads, of a call of a tool or of an answer.

    `document` is what a JSON Schema is applied to; None where there is no such text.
    """

    stage: Stage
    tool: str
    model: str
    texts: tuple[str, ...]
    document: str | None


@dataclass(frozen=True)
class GuardrailFinding:
    """The reason why texts do not pass, without what was found; `texts` are those that may be shown
    in their place, None where there are none."""

    reason: str
    texts: tuple[str, ...] | None = None


class TextCheck(Protocol):
    """Needs nothing but the texts."""

    def find(self, reading: Reading) -> GuardrailFinding | None: ...


@dataclass(frozen=True)
class ServerCheck:
    """Asks a server of the tenant's."""

    url: str
    secret: str
    timeout_s: float
    passes_on_error: bool


@dataclass(frozen=True)
class Guardrail:
    name: str
    action: GuardrailAction
    stages: frozenset[Stage]
    check: TextCheck | ServerCheck
    has_price: bool = False


class Readable(Protocol):
    """A call, a result or an answer, whose texts can be read and replaced."""

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def document(self) -> str | None: ...

    def with_texts(self, texts: Sequence[str]) -> Self: ...


Subject = TypeVar("Subject", bound=Readable)


@dataclass(frozen=True)
class Read(Generic[Subject]):
    """A subject as it may be shown, or the failure that is shown in its place."""

    subject: Subject
    decisions: tuple[GuardrailDecision, ...] = ()
    failure: ToolFailure | None = None

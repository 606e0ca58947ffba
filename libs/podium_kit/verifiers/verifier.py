"""The interface of verifiers: parameters, the tool calls they need, a verdict on an answer.

A verifier makes no call itself. It names the calls, its user makes them, and their
results come back: so every verdict can be computed again from a recorded episode.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from podium_kit.verifiers.text import normalized

EXPLANATION_CHARACTERS_MAX = 500


class InvalidVerifier(ValueError):
    """A verifier or its expected answer makes no sense; the message says why."""


class Unjudged(Exception):
    """No verdict is possible; never a score of 0. The message states why."""


@dataclass(frozen=True)
class Verdict:
    """The score of an answer, where 1 is solved and 0 is not, and its reason in words."""

    score: float
    explanation: str

    @classmethod
    def of(cls, right: bool, explanation: str) -> "Verdict":
        return cls(float(right), explanation[:EXPLANATION_CHARACTERS_MAX])

    @property
    def solved(self) -> bool:
        return self.score == 1


@dataclass(frozen=True)
class VerifierCall:
    """A tool call that a verifier needs the result of.

    `in_episode` calls see what the episode left behind in stateful tools; all others
    see a state of their own, which nothing in the episode could prepare.
    """

    tool: str
    arguments: dict[str, Any]
    in_episode: bool = False
    task: str = ""
    """The question to a tool of kind llm; unset for any other."""
    may_fail: bool = False
    """True where an empty result stands for a call that failed; else there is no verdict."""
    of_other_family: bool = False
    """True where it fails if its model is of the family of one that wrote in the episode."""


class Verifier(BaseModel):
    """Judges final answers; never raises because of what a model wrote, except Unjudged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    version: ClassVar[str]

    def calls(self, question: str, answer: str) -> Sequence[VerifierCall]:
        """Tool calls whose results are needed, in order; most verifiers need none."""
        return ()

    @abstractmethod
    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        """The verdict, given one result for each call. Raises Unjudged."""


def _as_texts(value: object) -> object:
    return (str(value),) if isinstance(value, str | int | float) else value


def _not_blank(expected: tuple[str, ...]) -> tuple[str, ...]:
    if not expected or not all(normalized(each) for each in expected):
        raise ValueError("the expected answer is empty")
    return expected


Expected = Annotated[
    tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...],
    BeforeValidator(_as_texts),
    AfterValidator(_not_blank),
]
"""One expected phrase or several."""

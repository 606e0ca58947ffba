"""What becomes of each parameter of a foreign API; docs/clients.md has the tables made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.errors import UnsupportedParameter


class Treatment(StrEnum):
    """What is done with a parameter."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Parameters:
    """Parameters that are treated alike; rejected ones are welcome where they ask for nothing."""

    treatment: Treatment
    names: tuple[str, ...]
    words: str
    neutral: tuple[Any, ...] = ()

    def row(self) -> str:
        """A row of Markdown."""
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {names} | {self.treatment.value} | {self.words} |"


def honoured(*names: str, words: str) -> Parameters:
    """What the answer is made by."""
    return Parameters(Treatment.HONOURED, names, words)


def ignored(*names: str, words: str) -> Parameters:
    """What asks for nothing in the answer."""
    return Parameters(Treatment.IGNORED, names, words)


def rejected(*names: str, words: str, neutral: tuple[Any, ...] = ()) -> Parameters:
    """What cannot be honoured, and the fix."""
    return Parameters(Treatment.REJECTED, names, words, neutral)


@dataclass(frozen=True)
class ApiParameters:
    """All parameters of an API."""

    rows: Sequence[Parameters]

    def check(self, others: Mapping[str, Any] | None) -> None:
        """Of those that no field of a request takes. Raises UnsupportedParameter."""
        known = {name: row for row in self.rows for name in row.names}
        for name, value in (others or {}).items():
            if value is None:
                continue
            if (row := known.get(name)) is None:
                raise UnsupportedParameter(name, "it is unknown; leave it out")
            if row.treatment is Treatment.REJECTED and value not in row.neutral:
                raise UnsupportedParameter(name, row.words)

    def names(self, treatment: Treatment) -> list[str]:
        return [name for row in self.rows if row.treatment is treatment for name in row.names]

    def table(self) -> str:
        """Markdown."""
        head = ["| Parameter | | |", "|---|---|---|"]
        return "\n".join([*head, *(row.row() for row in self.rows)])

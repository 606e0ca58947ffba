"""The treatment of each parameter of a foreign API; docs/clients.md has the tables made of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from gateway.errors import UnsupportedParameter

IGNORED_HEADER = "x-podium-ignored"
# A name is the client's, and so is how many there are.
NAMES_MAX, NAME_CHARACTERS_MAX = 30, 60
PLAIN = "[]/:$"
WHILE_WRITTEN = "[the answer while it is written](#the-answer-while-it-is-written)"


class Treatment(StrEnum):
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
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {names} | {self.treatment.value} | {self.words} |"


def ignored_header(names: Iterable[str]) -> dict[str, str]:
    """A header of a response that names what was not read of its request; {} for nothing."""
    quoted = (quote(name, safe=PLAIN, errors="replace") for name in dict.fromkeys(names))
    shown = [name[:NAME_CHARACTERS_MAX] for name in quoted]
    more = [f"and {len(shown) - NAMES_MAX} more"] if len(shown) > NAMES_MAX else []
    return {IGNORED_HEADER: ", ".join(shown[:NAMES_MAX] + more)} if shown else {}


def honoured(*names: str, words: str) -> Parameters:
    return Parameters(Treatment.HONOURED, names, words)


def ignored(*names: str, words: str) -> Parameters:
    return Parameters(Treatment.IGNORED, names, words)


def rejected(*names: str, words: str, neutral: tuple[Any, ...] = ()) -> Parameters:
    return Parameters(Treatment.REJECTED, names, words, neutral)


@dataclass(frozen=True)
class ApiParameters:
    rows: Sequence[Parameters]

    def check(self, others: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Names that are ignored, of those that no field of a request takes; unknown ones are.

        Raises UnsupportedParameter.
        """
        known = {name: row for row in self.rows for name in row.names}
        ignored_names = []
        for name, value in (others or {}).items():
            row = known.get(name)
            if value is None:
                continue
            if row is None or row.treatment is Treatment.IGNORED:
                ignored_names.append(name)
            elif row.treatment is Treatment.REJECTED and value not in row.neutral:
                raise UnsupportedParameter(name, row.words)
        return tuple(ignored_names)

    def names(self, treatment: Treatment) -> list[str]:
        return [name for row in self.rows if row.treatment is treatment for name in row.names]

    def table(self) -> str:
        head = ["| Parameter | | |", "|---|---|---|"]
        return "\n".join([*head, *(row.row() for row in self.rows)])

"""Records of a topic, and what became of one that was sent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamRecord:
    """One record as it goes to the topic."""

    key: str
    value: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Place:
    """The position of an acknowledged record."""

    partition: int
    offset: int
    """-1 where a repetition was acknowledged: brokers need not say where the first one is."""


@dataclass(frozen=True)
class Rejection:
    """The reason why the topic will never take a record."""

    reason: str


Outcome = Place | Rejection

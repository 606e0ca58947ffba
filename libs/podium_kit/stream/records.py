from dataclasses import dataclass


@dataclass(frozen=True)
class StreamRecord:
    key: str
    value: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Place:
    partition: int
    offset: int
    """-1 where a repetition was acknowledged: brokers need not say where the first one is."""


@dataclass(frozen=True)
class Rejection:
    reason: str


Outcome = Place | Rejection

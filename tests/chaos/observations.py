from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

UNKNOWN_EFFECT = "CANCELLED"


@dataclass(frozen=True)
class Call:
    """A tool call as the trajectory has it; `failure` is the kind of its failure, if it has one."""

    key: str
    tool: str
    failure: str = ""
    order: str = ""
    message: str = ""
    """Of the failure, as the model read it."""


@dataclass(frozen=True)
class Record:
    record_id: str
    episode_id: str
    stop_reason: str
    cost: Decimal
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Charge:
    episode_id: str
    key: str
    amount: Decimal
    request_id: str = ""
    tokens: tuple[int, int] = (0, 0)
    """Input and output, where the provider reported them."""


@dataclass(frozen=True)
class Bill:
    request_id: str
    key: str
    tokens: tuple[int, int]

    @property
    def episode_id(self) -> str:
        return self.key.split("/")[0]


@dataclass(frozen=True)
class Observed:
    accepted: frozenset[str]
    """And the children of those that were."""
    ended: frozenset[str]
    blocked_starts: int
    orders: dict[str, str]
    """Of the orders that were to be placed: the episode of each, whose child may place it."""
    records: Sequence[Record]
    charges: Sequence[Charge]
    bills: Sequence[Bill]
    effects: Sequence[str]
    """Orders as the outside service placed them, each as often as it was placed."""
    open_holds: Sequence[str] = ()
    reported: dict[str, Decimal] = field(default_factory=dict)
    """What the episodes' own rows say they cost."""
    poisoned: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    """Tools whose own server was harmed, so that a failure of theirs is a true answer."""


def of_episodes(charges: Iterable[Charge], ids: frozenset[str]) -> list[Charge]:
    return [one for one in charges if one.episode_id in ids]

"""A call of a tool without an episode, apart from how it travels and where it is stored."""

from dataclasses import dataclass
from datetime import datetime

from episodes.keys import StepKind, effect_key
from podium_kit.money import Money


@dataclass(frozen=True)
class StoredCall:
    """A call as the database knows it.

    The groups are the subject's, see Identity. The toolset holds its one tool;
    the answer is the adapters' serialized response, None before.
    A cost of None is unknown once the call has ended.
    """

    id: str
    tenant: str
    subject: str
    spec: bytes
    toolset: bytes
    create_time: datetime
    answer: bytes | None = None
    cost: Money | None = None
    ended: bool = False
    groups: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Of its hold, of its capture, and of what the adapters are asked; turns begin at 1."""
        return effect_key(self.id, 0, StepKind.TOOL)

    @property
    def budget_id(self) -> str:
        """Of the budget that it was started with."""
        return f"direct-call/{self.id}"

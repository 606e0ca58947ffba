import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from podium_kit.derived_ids import derived_uuid7
from podium_kit.money import Money

# Of a run or a live evaluation.
TRIALS_MAX = 200_000


class EvaluationState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class TrialState(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    JUDGED = "judged"
    UNJUDGED = "unjudged"
    NOT_RUN = "not_run"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class JudgeVote:
    """The verdict of one of the models that judge a trial; no score is not a score of 0."""

    judge: str
    score: float | None
    explanation: str
    cost: Money | None

    def values(self) -> dict[str, object]:
        """Returns the fields as JSON, with money as text."""
        amount = self.cost and f"{self.cost.amount:f}"
        currency = self.cost and self.cost.currency_code
        return {**vars(self), "cost": amount, "currency": currency}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "JudgeVote":
        cost = values["cost"] and Money(Decimal(values["cost"]), values["currency"])
        return cls(values["judge"], values["score"], values["explanation"], cost)


@dataclass(frozen=True)
class TrialOutcome:
    """The record of an episode that ends in an evaluation; no score is not a score of 0."""

    score: float | None = None
    explanation: str = ""
    cost: Money | None = None
    orchestrator_cost: Money | None = None
    """The part of the cost that is the orchestrator's own tokens."""
    judge_cost: Money | None = None
    unpriced_call_count: int = 0
    latency_s: float = 0.0
    call_counts: Mapping[str, int] = field(default_factory=dict)
    """Counts by tool, and by tool/model of a tool that offers several."""
    simulator_cost: Money | None = None
    votes: Sequence[JudgeVote] = ()
    """Votes of the models that its check asked."""


@dataclass(frozen=True)
class EnvironmentVerdict:
    """The verdict on a conversation, which adds to what the end of its episode recorded."""

    place: int
    score: float | None
    explanation: str
    not_run: bool
    simulator_cost: Money | None
    judge_cost: Money | None
    unpriced_call_count: int
    votes: Sequence[JudgeVote]


@dataclass(frozen=True)
class Item:
    """An item of a suite; the body is a serialized EvaluationItem."""

    id: str
    body: bytes
    awaits_verdict: bool = False
    """Its environment judges it."""


@dataclass(frozen=True)
class PlannedTrial:
    place: int
    arm: str
    item_place: int
    repeat: int
    episode_id: str
    awaits_verdict: bool


@dataclass(frozen=True)
class NewEvaluation:
    """A run that is ready to be stored; `spec` is a serialized Evaluation."""

    id: str
    tenant: str
    subject: str
    spec: bytes
    models: Mapping[str, str]
    """The orchestrator of each arm, in their order; "" is what users get."""
    repeats: int
    items: tuple[Item, ...]

    @property
    def suite_digest(self) -> bytes:
        return suite_digest(self.items)

    def trials(self) -> Iterator[PlannedTrial]:
        """Every arm plays an item before the next one begins: a run that ends early has pairs."""
        place = 0
        for repeat in range(self.repeats):
            for item_place, item in enumerate(self.items):
                for arm in self.models:
                    # The tenant is part of it: ids of episodes are unique among all tenants.
                    names = (self.tenant, arm, item.id, str(repeat))
                    episode_id = derived_uuid7(self.id, *names)
                    yield PlannedTrial(
                        place, arm, item_place, repeat, episode_id, item.awaits_verdict
                    )
                    place += 1


@dataclass(frozen=True)
class StoredEvaluation:
    id: str
    subject: str
    spec: bytes
    suite_digest: bytes
    state: EvaluationState
    reason: str
    create_time: datetime
    end_time: datetime | None
    is_live: bool = False


@dataclass(frozen=True)
class ArmProgress:
    arm: str
    counts: dict[TrialState, int]
    score_sum: float
    cost: Money
    judge_cost: Money
    simulator_cost: Money
    unpriced_call_count: int


@dataclass(frozen=True)
class StoredTrial:
    planned: PlannedTrial
    item: Item
    state: TrialState
    stop_reason: str
    outcome: TrialOutcome
    turn_count: int
    tool_call_count: int


@dataclass(frozen=True)
class JudgeVerdict:
    """The verdict of a judge beside a trial's own check; no score is not a score of 0."""

    place: int
    judge: str
    prompt_digest: str
    verifier: str
    verifier_version: str
    score: float | None
    explanation: str
    call_id: str
    cost: Money | None
    episode_id: str = ""
    create_time: datetime | None = None


@dataclass(frozen=True)
class LiveEvaluation:
    """A running evaluation of live traffic; `spec` is a serialized Evaluation."""

    tenant: str
    id: str
    subject: str
    suite_digest: bytes
    spec: bytes


@dataclass(frozen=True)
class Shadow:
    """A user's episode that has ended, and the id of the one in which the candidate replays it."""

    episode_id: str
    replay_of: str
    # Whose episode it is, by which policies bind the shadow as well.
    subject: str
    groups: frozenset[str]
    spec: bytes
    answer: str


# Trial, judge and prompt of a verdict: the order in which they are listed.
VerdictPosition = tuple[int, str, str]


def suite_digest(items: Sequence[Item]) -> bytes:
    whole = hashlib.sha256()
    for item in items:
        whole.update(hashlib.sha256(item.body).digest())
    return whole.digest()


def known_money(amount: Decimal | None, currency: str | None) -> Money | None:
    return None if amount is None or currency is None else Money(amount, currency)

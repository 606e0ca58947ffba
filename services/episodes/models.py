import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from episodes.keys import StepKind, effect_key
from podium_kit.money import Money

# The database counts steps in 32 bits.
SEQUENCE_MAX = 2**31 - 1


class StopReason(StrEnum):
    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    FAILED = "failed"
    OUTPUT_LIMIT = "output_limit"
    DIVERGED = "diverged"


class EpisodeState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"


@dataclass(frozen=True)
class Membership:
    group_id: str
    size: int
    sample_index: int
    task_id: str


# Of the task, what lists show and search.
EXCERPT_CHARACTERS = 400


@dataclass(frozen=True)
class EpisodeExcerpt:
    """The part of a spec that lists filter by and show."""

    task: str = ""
    model: str = ""
    parent_id: str | None = None


@dataclass(frozen=True)
class NewEpisode:
    """An admitted episode, ready to be stored. Blobs are serialized messages."""

    episode_id: str
    tenant: str
    subject: str
    # What policies bind the subject by, besides its name: see Identity.groups.
    groups: frozenset[str]
    spec: bytes
    toolset: bytes
    # SHA-256 of the toolset without its own `digest`, which says the same.
    toolset_digest: bytes
    policy_name: str
    policy_version: int
    membership: Membership
    labels: dict[str, str]
    turn_limit: int
    time_limit_s: float
    # Model and policy that a live evaluation gave it, in place of the spec's.
    assigned: bytes = b""
    # Empty in an episode that was read from the store.
    excerpt: EpisodeExcerpt = EpisodeExcerpt()

    @property
    def teams(self) -> list[str]:
        """The teams of the subject, in order."""
        prefix = "team:"
        return sorted(name.removeprefix(prefix) for name in self.groups if name.startswith(prefix))


@dataclass(frozen=True)
class Progress:
    turn_count: int = 0
    tool_call_count: int = 0
    cost: Money | None = None
    unpriced_call_count: int = 0
    usage: bytes = b""


@dataclass(frozen=True)
class Ending:
    stop_reason: StopReason
    answer: str = ""
    failure: bytes = b""


@dataclass(frozen=True)
class EpisodeFacts:
    """Facts that lists show of an episode that has ended, beside its sums."""

    tools: frozenset[str] = frozenset()
    # Numbers of podium.common.v1.FailureKind.
    failure_kinds: frozenset[int] = frozenset()
    score: float | None = None
    # Tools, as tool/model where a model answered, that the answer's verdict is credited to.
    credited: frozenset[str] = frozenset()
    training_consent: bool = False


@dataclass(frozen=True)
class End:
    progress: Progress
    ending: Ending
    time: datetime


@dataclass(frozen=True)
class StoredEpisode:
    new: NewEpisode
    create_time: datetime
    state: EpisodeState
    progress: Progress
    ending: Ending | None = None
    end_time: datetime | None = None
    # A call of it waits for a person's decision.
    awaits_approval: bool = False

    def ended(self, end: End) -> "StoredEpisode":
        finished = EpisodeState.FINISHED
        return StoredEpisode(
            self.new, self.create_time, finished, end.progress, end.ending, end.time
        )


@dataclass(frozen=True)
class Step:
    """One durable effect of an episode: a model call, a tool call, a wait for approval.

    The body is a serialized ModelCall, ToolInvocation or ApprovalRequested. A step is settled once
    the ledger has its cost; an unknown cost is None.
    """

    episode_id: str
    sequence: int
    turn: int
    kind: StepKind
    call_index: int
    body: bytes
    settled: bool = False
    cost: Money | None = None
    create_time: datetime | None = None

    @property
    def key(self) -> str:
        return effect_key(self.episode_id, self.turn, self.kind, self.call_index)


@dataclass(frozen=True)
class OutboxRecord:
    record_id: str
    kind: str
    tenant: str
    group_id: str
    body: bytes
    headers: dict[str, str]

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the body."""
        return self.headers["digest"]


# Name and version of a tool, and the model alias, "" for tools without a choice.
PolicyQuestion = tuple[str, int, str]


@dataclass(frozen=True)
class PolicyDecision:
    """`guardrails`, in this order, read the call; `cache` is the policy's. Both are serialized."""

    allowed: bool
    reason: str
    needs_approval: bool
    guardrails: tuple[bytes, ...] = ()
    cache: bytes | None = None


@dataclass(frozen=True)
class Feedback:
    id: str
    score: float | None
    label: str
    comment: str
    created_by: str
    create_time: datetime | None = None

    def identified(self) -> "Feedback":
        """Derives a missing id from the content and the subject."""
        if self.id:
            return self
        content = json.dumps([self.created_by, self.score, self.label, self.comment])
        return replace(self, id=hashlib.sha256(content.encode()).hexdigest()[:32])

    def is_same_as(self, other: "Feedback") -> bool:
        return replace(self, create_time=None) == replace(other, create_time=None)

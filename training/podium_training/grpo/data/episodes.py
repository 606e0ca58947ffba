from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from podium_training.grpo.model.grammar import Constraint
from podium_training.grpo.model.samples import Row
from podium_training.grpo.objective.rewards import Features, Preferences


class Reason(StrEnum):
    NO_CONSENT = "no consent"
    HELD_OUT = "held out"
    """The task is only measured on; learning it would spoil the measure."""
    INTERRUPTED = "interrupted"
    """Cancelled, or failed for want of a service: says nothing about the policy."""
    NOT_JUDGED = "not judged"
    UNPRICED = "unpriced"
    """A cost is unknown, and unknown is not zero."""
    NO_TOKENS = "no tokens"
    """Text alone; tokenising it again would give other tokens than were sampled."""
    MALFORMED = "malformed"
    OTHER_SCHEMA = "other schema"
    """Written in another version of the contract, whose fields may mean something else."""
    WRONG_DIGEST = "wrong digest"
    TOKEN_OUT_OF_RANGE = "token out of range"  # noqa: S105
    BAD_LOGPROB = "bad logprob"
    TRUNCATED_SAMPLING = "truncated sampling"
    """Nucleus or temperature 0: the distribution sampled from is not the policy's."""
    UNKNOWN_CONSTRAINT = "unknown constraint"
    BROKEN_CONSTRAINT = "broken constraint"
    """Its grammar forbids a token that was sampled, or is no grammar."""
    OTHER_TOKENIZER = "other tokenizer"
    TOO_LONG = "too long"
    LOST = "lost"
    """Retention removed the record before it was read."""


class Rejected(Exception):
    """A record or episode the trainer may not use."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Limits:
    vocabulary: int
    """Token ids are below it."""
    row_tokens_max: int = 8192
    prompt_digest: str = ""
    """SHA-256 (hex) of the chat template the policy is trained with; empty: any."""
    text_of: Callable[[Sequence[int]], str] | None = None
    """Decodes tokens by the policy's tokenizer; None: their text is not looked at."""
    imitated: bool = False
    """Replies are imitated, and not weighed by how likely they were: any sampling will do."""


class GroupKey(NamedTuple):
    """The key of a group. It has the tenant, because two tenants may choose the same id."""

    tenant: str
    id: str


@dataclass(frozen=True)
class Episode:
    """A judged episode: its trained rows, what it did, and what its tenant prefers."""

    id: str
    group: GroupKey
    group_size: int
    task_id: str
    rows: tuple[Row, ...]
    constraints: dict[str, Constraint]
    """Constraints by the digest in the rows."""
    tools: tuple[str, ...]
    features: Features
    currency: str
    preferences: Preferences
    model_versions: tuple[str, ...]
    """Policy version of every call: one episode may see several."""

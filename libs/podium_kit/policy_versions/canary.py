"""The canary: what a version must say, as log-probabilities its trainer computed.

A digest shows that the files are right; only the server's own answers show that it serves
them. Adapters have failed to reach servers for months unnoticed (verl-project/verl#7495).
"""

import math
from collections.abc import Sequence
from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field, model_validator

PROMPTS = 16
# Mean absolute differences in nats per token. Between vLLM and torch up to 0.04 was measured in
# bfloat16, 5e-6 in float32.
TOLERANCE_NATS = {"bfloat16": 0.08, "float32": 1e-3}
# Once in 22,000: of what a trained policy never says, bfloat16 does not tell how rare it is.
# Without a floor, policies of 72 steps differed from themselves by 0.09, and were not served.
LOGPROB_FLOOR = -10.0
Logprobs = Sequence[Sequence[float]]


class CanaryPrompt(BaseModel):
    """A fixed prompt and tokens that could come next, as ids, never as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt_ids: tuple[int, ...] = Field(min_length=1)
    next_ids: tuple[int, ...] = Field(min_length=1)
    logprobs: tuple[float, ...]
    """Log-probability of each as the next token, at temperature 1 over all tokens, in nats."""

    @model_validator(mode="after")
    def _complete(self) -> "CanaryPrompt":
        if len(self.logprobs) != len(self.next_ids):
            raise ValueError("one log-probability per token")
        if not all(math.isfinite(value) and value <= 0 for value in self.logprobs):
            raise ValueError("log-probabilities are finite and at most 0")
        return self


class Canary(BaseModel):
    """The prompts of a version; those of one run are the same for all of its versions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompts: tuple[CanaryPrompt, ...] = Field(min_length=PROMPTS, max_length=PROMPTS)

    @property
    def logprobs(self) -> Logprobs:
        return [prompt.logprobs for prompt in self.prompts]

    def same_questions(self, other: "Canary") -> bool:
        return [(p.prompt_ids, p.next_ids) for p in self.prompts] == [
            (p.prompt_ids, p.next_ids) for p in other.prompts
        ]


def canary_fault(
    served: Logprobs, own: Canary, others: Sequence[Canary], tolerance_nats: float
) -> str | None:
    """Returns the reason why a server does not serve this version; None if it does.

    It must say what the trainer computed, within the precision's noise, and must not be nearer
    to another version that is distinguishable at this noise: a stale adapter is a near one.
    """
    if [len(row) for row in served] != [len(row) for row in own.logprobs]:
        return "the server's canary has other lengths than the trainer's"
    distance = _distance(served, own.logprobs)
    # Written so that NaN is a fault.
    if not distance <= tolerance_nats:
        return (
            f"canary differs by {distance:.3g} nats a token from the trainer's,"
            f" at most {tolerance_nats:g} is noise"
        )
    for other in others:
        if not own.same_questions(other):
            continue
        apart = _distance(own.logprobs, other.logprobs)
        if apart > tolerance_nats / 2 and _distance(served, other.logprobs) < distance:
            return "canary is nearer to another version than to this one"
    return None


def _distance(one: Logprobs, other: Logprobs) -> float:
    """Mean absolute difference per token, in nats."""
    pairs = [
        abs(max(a, LOGPROB_FLOOR) - max(b, LOGPROB_FLOOR))
        for mine, theirs in zip(one, other, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    ]
    return fmean(pairs)

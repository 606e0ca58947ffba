"""Clipped policy losses over the trained tokens of a batch.

All tensors are flat, one element per trained token, so padding does not exist. Every token
carries its share of the loss (`weights`), computed once for the whole batch: packing,
micro-batches and the number of processes cannot change the sum.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor


class Loss(StrEnum):
    GRPO = "grpo"
    """Mean over the tokens of an episode, then over episodes (arXiv 2402.03300)."""
    DR_GRPO = "dr_grpo"
    """Sum over the tokens of an episode, divided by a constant length (arXiv 2503.20783)."""
    DAPO = "dapo"
    """Mean over all tokens of the batch (arXiv 2503.14476)."""
    BNPO = "bnpo"
    """Mean over the tokens of each micro-batch; here of the batch, the same as DAPO."""
    CISPO = "cispo"
    """Clips the weight and not the update (arXiv 2506.13585); added up as DAPO."""
    IMITATION = "imitation"
    """Likelihood of what was done, whoever did it; added up as DAPO. No ratios: a demonstrator
    is not a policy that its tokens could be drawn from again."""


class Level(StrEnum):
    TOKEN = "token"  # noqa: S105
    SEQUENCE = "sequence"
    """The geometric mean over the sequence (GSPO, arXiv 2507.18071)."""


class KlEstimator(StrEnum):
    """Estimators of the divergence from the reference on sampled tokens."""

    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


@dataclass(frozen=True)
class LossOptions:
    loss: Loss = Loss.DAPO
    level: Level = Level.TOKEN
    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None
    """Upper bound of the ratio where the advantage is negative; None: unbounded."""
    length_max: int = 512
    """The constant of DR_GRPO, in tokens."""
    kl_coefficient: float = 0.0
    kl_estimator: KlEstimator = KlEstimator.K3
    kl_unbiased: bool = True
    """Weigh the estimate by the ratio, so that it is one under the policy being trained."""
    importance_cap: float = 2.0
    """Truncation of the weight that corrects old for behaviour log-probabilities."""


PerToken = Float[Tensor, " tokens"]
Sequences = Int[Tensor, " tokens"]


@dataclass(frozen=True)
class TokenBatch:
    """Trained tokens. `sequence` numbers the row (one model call) a token belongs to."""

    logprobs: PerToken
    """Under the policy being trained; has a gradient."""
    old_logprobs: PerToken
    """Under the policy at the start of the step."""
    inference_logprobs: PerToken
    """Under the exact distribution the token was sampled from."""
    advantages: PerToken
    sequence: Sequences
    weights: PerToken
    reference_logprobs: PerToken | None = None
    """Under the policy to stay near to; None: no such term."""


@dataclass(frozen=True)
class LossResult:
    """The loss, and how many tokens its bounds changed."""

    loss: Float[Tensor, ""]
    clipped: int = 0
    truncated: int = 0


def token_weights(
    options: LossOptions,
    lengths: Int[Tensor, " sequences"],
    episodes: Int[Tensor, " sequences"] | None = None,
) -> Float64[Tensor, " sequences"]:
    """Weight of one token of each sequence; `lengths` are those of the whole batch, in tokens.

    `episodes` numbers the episode that each sequence is a call of; None: each is one of its own.
    """
    if episodes is None:
        episodes = torch.arange(lengths.numel())
    place: Int[Tensor, " sequences"] = torch.unique(episodes, return_inverse=True)[1]
    count = int(place.max()) + 1 if place.numel() else 0
    match options.loss:
        case Loss.GRPO:
            tokens = lengths.new_zeros(count).index_add(0, place, lengths)[place]
            return 1.0 / (tokens.clamp(min=1).double() * count)
        case Loss.DR_GRPO:
            return torch.full_like(lengths, 1.0, dtype=torch.float64) / (count * options.length_max)
        case Loss.DAPO | Loss.BNPO | Loss.CISPO | Loss.IMITATION:
            return torch.full_like(lengths, 1.0, dtype=torch.float64) / lengths.sum().clamp(min=1)


def policy_loss(batch: TokenBatch, options: LossOptions) -> LossResult:
    """The share of the batch's loss that these tokens make."""
    if options.loss is Loss.IMITATION:
        losses = -batch.advantages * batch.logprobs * batch.weights.to(batch.logprobs.dtype)
        return LossResult(losses.sum())
    log_ratio = _levelled(batch.logprobs - batch.old_logprobs, batch.sequence, options.level)
    ratio = log_ratio.exp()
    correction = (batch.old_logprobs - batch.inference_logprobs).exp()
    truncated = correction.clamp(max=options.importance_cap).detach()
    losses = truncated * _token_losses(batch, ratio, options)
    if batch.reference_logprobs is not None and options.kl_coefficient:
        divergence = kl(batch.logprobs, batch.reference_logprobs, options.kl_estimator)
        unbiased = ratio * divergence if options.kl_unbiased else divergence
        losses = losses + options.kl_coefficient * unbiased
    loss = (losses * batch.weights.to(losses.dtype)).sum()
    truncated_count = int((correction > options.importance_cap).sum())
    return LossResult(loss, _clipped(ratio, batch.advantages, options), truncated_count)


def kl(logprobs: PerToken, reference: PerToken, estimator: KlEstimator) -> PerToken:
    """Divergence from the reference per token (http://joschu.net/blog/kl-approx.html)."""
    difference = reference - logprobs
    match estimator:
        case KlEstimator.K1:
            return -difference
        case KlEstimator.K2:
            return difference.square() / 2
        case KlEstimator.K3:
            return difference.exp() - difference - 1


def _token_losses(batch: TokenBatch, ratio: PerToken, options: LossOptions) -> PerToken:
    if options.loss is Loss.CISPO:
        weight = ratio.clamp(max=1 + options.clip_high).detach()
        return -weight * batch.advantages * batch.logprobs
    clipped = ratio.clamp(1 - options.clip_low, 1 + options.clip_high)
    bounded = ratio if options.dual_clip is None else ratio.clamp(max=options.dual_clip)
    return -torch.minimum(bounded * batch.advantages, clipped * batch.advantages)


def _levelled(log_ratio: PerToken, sequence: Sequences, level: Level) -> PerToken:
    if level is Level.TOKEN:
        return log_ratio
    rows = int(sequence.max()) + 1
    sums = log_ratio.new_zeros(rows).index_add(0, sequence, log_ratio)
    return (sums / torch.bincount(sequence, minlength=rows).clamp(min=1))[sequence]


def _clipped(ratio: PerToken, advantages: PerToken, options: LossOptions) -> int:
    low = (ratio < 1 - options.clip_low) & (advantages < 0)
    high = (ratio > 1 + options.clip_high) & (advantages > 0)
    return int((low | high).sum())

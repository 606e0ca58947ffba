"""One optimiser step over a batch of groups, whatever its packing.

Weights, denominators and advantages are fixed for the whole batch before the first
micro-batch, so splitting it changes nothing but memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo.forward import Distribution, token_logprobs
from grpo.grammar import BITS, GrammarReplay, forced
from grpo.groups import Group
from grpo.losses import Loss, LossOptions, TokenBatch, policy_loss, token_weights
from grpo.samples import Row
from grpo.trie import PackedRows, pack


@dataclass(frozen=True)
class StepOptions:
    """How a step is taken."""

    loss: LossOptions = field(default_factory=LossOptions)
    tokens_max: int = 4096
    """Tokens of a micro-batch before sharing; more only where one row is longer."""
    gradient_norm_max: float = 1.0
    drift_stop: float = 1.0
    """Mean absolute difference from behaviour log-probabilities, in nats, that is no noise."""


@dataclass(frozen=True)
class StepResult:
    """What a step did."""

    applied: bool
    """False when a loss or gradient was not finite: the weights are as before."""
    metrics: dict[str, float]


class DriftTooLarge(RuntimeError):
    """Trainer and server do not mean the same distribution; training on would be noise."""


@dataclass(frozen=True)
class _Sample:
    """A row with its share in the batch."""

    row: Row
    advantage: float
    legal: Tensor | None
    chosen: Tensor
    """(tokens,) bool: whether the grammar left a choice."""
    weight: float = 0.0


class Learner:
    """A policy and its optimiser."""

    def __init__(
        self,
        model: PreTrainedModel,
        optimiser: torch.optim.Optimizer,
        grammar: GrammarReplay,
        options: StepOptions,
    ) -> None:
        self.model = model
        self.optimiser = optimiser
        self._grammar = grammar
        self._options = options
        self._vocabulary = int(model.config.vocab_size)

    def step(self, groups: Sequence[Group]) -> StepResult:
        """Learns from a batch. Raises DriftTooLarge, and ConstraintError, before any change."""
        samples = self._weighted([sample for group in groups for sample in self._samples(group)])
        self.optimiser.zero_grad(set_to_none=True)
        sums = _Sums()
        for batch in _micro_batches(samples, self._options.tokens_max):
            self._accumulate(batch, sums)
        metrics = sums.metrics()
        imitates = self._options.loss.loss is Loss.IMITATION
        if metrics["drift_mean"] > self._options.drift_stop and not imitates:
            self.optimiser.zero_grad(set_to_none=True)
            raise DriftTooLarge(
                f"{metrics['drift_mean']:.3g} nats a token between trainer and server; is the"
                " served policy the one being trained?"
            )
        return self._apply(metrics)

    def _samples(self, group: Group) -> Iterator[_Sample]:
        for member, advantage in zip(group.members, group.advantages, strict=True):
            for row in member.rows:
                if not row.constraint:
                    yield _Sample(row, advantage, None, torch.ones(len(row.completion_ids)).bool())
                    continue
                legal = self._grammar.legal(member.constraints[row.constraint], row.completion_ids)
                yield _Sample(row, advantage, legal, ~forced(legal, self._vocabulary))

    def _weighted(self, samples: list[_Sample]) -> list[_Sample]:
        lengths = torch.tensor([int(sample.chosen.sum()) for sample in samples])
        weights = token_weights(self._options.loss, lengths)
        return [
            _Sample(sample.row, sample.advantage, sample.legal, sample.chosen, float(weight))
            for sample, weight in zip(samples, weights, strict=True)
        ]

    def _accumulate(self, samples: Sequence[_Sample], sums: "_Sums") -> None:
        packed = pack([sample.row for sample in samples])
        logprobs = token_logprobs(self.model, packed, self._distribution(samples, packed))
        kept = torch.cat([sample.chosen for sample in samples])
        behaviour = torch.tensor([p for each in samples for p in each.row.behaviour_logprobs])
        batch = TokenBatch(
            logprobs=logprobs[kept],
            # One step per batch: the policy at its start is the one being trained.
            old_logprobs=logprobs.detach()[kept],
            behaviour_logprobs=behaviour[kept],
            advantages=torch.tensor([each.advantage for each in samples])[packed.row][kept],
            sequence=packed.row[kept],
            weights=torch.tensor([each.weight for each in samples])[packed.row][kept],
        )
        result = policy_loss(batch, self._options.loss)
        result.loss.backward()
        sums.add(packed, batch, float(result.loss.detach()))

    def _distribution(self, samples: Sequence[_Sample], packed: PackedRows) -> Distribution:
        temperature = torch.tensor([sample.row.temperature for sample in samples])[packed.row]
        if all(sample.legal is None for sample in samples):
            return Distribution(temperature, None)
        return Distribution(temperature, torch.cat([self._legal(each) for each in samples]))

    def _legal(self, sample: _Sample) -> Tensor:
        if sample.legal is not None:
            return sample.legal
        words = -(-self._vocabulary // BITS)
        return torch.full((len(sample.row.completion_ids), words), -1, dtype=torch.int32)

    def _apply(self, metrics: dict[str, float]) -> StepResult:
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self._options.gradient_norm_max
        )
        metrics["gradient_norm"] = float(norm)
        finite = all(torch.isfinite(torch.tensor(value)) for value in metrics.values())
        if finite:
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return StepResult(finite, metrics)


@dataclass
class _Sums:
    """Figures of a batch, summed over its micro-batches."""

    loss: float = 0.0
    trained: int = 0
    unique: int = 0
    rows: int = 0
    drift: float = 0.0
    drift_max: float = 0.0

    def add(self, packed: PackedRows, batch: TokenBatch, loss: float) -> None:
        drift = (batch.old_logprobs - batch.behaviour_logprobs).abs()
        self.loss += loss
        self.trained += drift.numel()
        self.unique += len(packed.tokens)
        self.rows += int(packed.row.max()) + 1
        self.drift += float(drift.sum())
        self.drift_max = max(self.drift_max, float(drift.max()) if drift.numel() else 0.0)

    def metrics(self) -> dict[str, float]:
        return {
            "loss": self.loss,
            "tokens_trained": float(self.trained),
            "tokens_computed": float(self.unique),
            "rows": float(self.rows),
            "drift_mean": self.drift / max(1, self.trained),
            "drift_max": self.drift_max,
        }


def _micro_batches(samples: Sequence[_Sample], tokens_max: int) -> Iterator[list[_Sample]]:
    """Rows in order, so that those of a group, which share their prompts, stay together."""
    batch: list[_Sample] = []
    tokens = 0
    for sample in samples:
        size = len(sample.row.prompt_ids) + len(sample.row.completion_ids)
        if batch and tokens + size > tokens_max:
            yield batch
            batch, tokens = [], 0
        batch.append(sample)
        tokens += size
    if batch:
        yield batch

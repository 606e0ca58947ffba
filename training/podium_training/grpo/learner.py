"""Optimizer steps over a batch of groups, whatever its packing.

Weights, denominators and advantages are fixed for the whole batch before the first
micro-batch, so splitting it, over time or over processes, changes nothing but memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers import PreTrainedModel

from podium_training.grpo.checkpoints import require_weights_of
from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.data.episodes import Episode, Reason, Rejected
from podium_training.grpo.data.groups import Group
from podium_training.grpo.ending import Fault
from podium_training.grpo.model.forward import Distribution, Scorer
from podium_training.grpo.model.grammar import (
    BITS,
    ConstraintError,
    GrammarReplay,
    LegalBits,
    forced,
)
from podium_training.grpo.model.micro_batches import Sample, micro_batches, size_of
from podium_training.grpo.model.trie import PackedRows, pack
from podium_training.grpo.objective.losses import (
    Loss,
    LossOptions,
    PerToken,
    TokenBatch,
    policy_loss,
    token_weights,
)
from podium_training.grpo.objective.sums import Sums
from podium_training.grpo.process_group import ProcessGroup, gathered, sharded_like


@dataclass(frozen=True)
class StepOptions:
    loss: LossOptions = field(default_factory=LossOptions)
    passes: int = 1
    """Optimizer steps per batch. The first has a ratio of 1; later ones are clipped."""
    tokens_max: int = 4096
    """Tokens of a micro-batch before sharing; more only where one row is longer."""
    gradient_norm_max: float = 1.0
    drift_stop: float = 1.0
    """Mean absolute difference from behaviour log-probabilities, in nats, that is no noise."""
    precision: torch.dtype = torch.float32
    """Precision of the products of a pass; bfloat16 is faster and rougher. Weights stay float32."""


@dataclass(frozen=True)
class StepResult:
    applied: bool
    """False when a loss or gradient was not finite: the weights are as before."""
    metrics: dict[str, float]


class DriftTooLarge(Fault):
    """Trainer and server do not mean the same distribution; training on would be noise."""


class Learner:
    def __init__(
        self,
        model: PreTrainedModel,
        make_optimizer: Callable[[list[Tensor]], torch.optim.Optimizer],
        grammar: GrammarReplay,
        options: StepOptions,
        *,
        processes: ProcessGroup | None = None,
        reference: PreTrainedModel | None = None,
    ) -> None:
        """The optimizer is made of the weights that learn, once they are sharded.

        `reference` is what the policy is kept near to, where the loss has such a term.
        The processes of a group call every method alike.
        """
        self.model = model
        self._processes = processes or ProcessGroup()
        self._scorer = self._processes.shard(Scorer(model, options.precision))
        self._reference = None
        if reference is not None:
            frozen = Scorer(reference.requires_grad_(False), options.precision)
            self._reference = self._processes.shard(frozen)
        self.optimizer = make_optimizer([value for _, value in self._trained()])
        self._rates = [group["lr"] for group in self.optimizer.param_groups]
        self._grammar = grammar
        self._options = options
        self._vocabulary = int(model.config.vocab_size)

    def step(self, groups: Sequence[Group], rate: float = 1.0) -> StepResult:
        """Learns from a batch, at a share of the optimizer's learning rate.

        The metrics are those of the last pass. Raises DriftTooLarge, and ConstraintError, before
        any change.
        """
        for group, full in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * full
        members = [
            each for group in groups for each in zip(group.members, group.advantages, strict=True)
        ]
        found = [
            sample
            for number, (member, advantage) in enumerate(members)
            for sample in self._samples(number, member, advantage)
        ]
        # Those under one grammar come together: they share the listing of their tools.
        found.sort(key=lambda sample: sample.row.constraint)
        weighted = self._weighted([sample for sample in found if sample.chosen.any()])
        # Those as good as their group's mean count in the denominator and move nothing, unless
        # there is a reference to draw them back to.
        compared = self._reference is not None
        samples = [sample for sample in weighted if sample.advantage or compared]
        batches = self._mine(samples)
        # Under the policy before the first pass, by micro-batch.
        old: list[PerToken] = []
        for _ in range(self._options.passes):
            result = self._pass(batches, old, compared=compared)
            if not result.applied:
                break
        return result

    def _pass(
        self, batches: Sequence[Sequence[Sample]], old: list[PerToken], *, compared: bool
    ) -> StepResult:
        self.optimizer.zero_grad(set_to_none=True)
        sums = Sums()
        for number, batch in enumerate(batches):
            self._accumulate(batch, number, old, sums)
        metrics = sums.over(self._processes).metrics(compared=compared)
        imitates = self._options.loss.loss is Loss.IMITATION
        if metrics["drift_mean"] > self._options.drift_stop and not imitates:
            self.optimizer.zero_grad(set_to_none=True)
            raise DriftTooLarge(
                f"{metrics['drift_mean']:.3g} nats a token between trainer and server; is the"
                " served policy the one being trained?"
            )
        return self._apply(metrics)

    def check(self, episode: Episode) -> None:
        try:
            for row in episode.rows:
                if row.constraint:
                    self._grammar.check(episode.constraints[row.constraint], row.completion_ids)
        except ConstraintError as error:
            raise Rejected(Reason.BROKEN_CONSTRAINT, str(error)) from error

    def gathered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Trained weights by name and the optimizer's state, whole; a collective call.

        Those of the first process; the others have outlines.
        """
        whole = partial(gathered, kept=self._processes.rank == 0)
        weights = {name: whole(value.detach()) for name, value in self._trained()}
        return weights, tree_map(whole, self.optimizer.state_dict())

    def restore(self, weights: Mapping[str, Tensor], optimizer: Mapping[str, Any]) -> None:
        """Takes over what was gathered, by however many processes; a collective call.

        Only the first process needs the values. The optimizer's settings stay those it was made
        with. Raises InvalidConfig for other weights and for the averages of another optimizer.
        """
        require_weights_of(self.model, weights)
        if ("block" in optimizer["param_groups"][0]) != ("block" in self.optimizer.defaults):
            raise InvalidConfig(
                "step.averages: the run's checkpoint has the other kind; set it back, or begin a"
                " run with another `output` from a version of this one"
            )
        trained = dict(self._trained())
        sharded = {name: sharded_like(weights[name], like) for name, like in trained.items()}
        self.model.load_state_dict(sharded, strict=False)
        state = {
            number: {
                key: sharded_like(value, like) if value.ndim else value
                for key, value in optimizer["state"][number].items()
            }
            for number, like in enumerate(trained.values())
            if number in optimizer["state"]
        }
        settings = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": settings})

    def _trained(self) -> Iterator[tuple[str, Tensor]]:
        named = self.model.named_parameters()
        return ((name, value) for name, value in named if value.requires_grad)

    def _samples(self, number: int, member: Episode, advantage: float) -> Iterator[Sample]:
        for row in member.rows:
            if not row.constraint:
                every = torch.ones(len(row.completion_ids)).bool()
                yield Sample(row, advantage, None, every, number)
                continue
            legal = self._grammar.legal(member.constraints[row.constraint], row.completion_ids)
            yield Sample(row, advantage, legal, ~forced(legal, self._vocabulary), number)

    def _weighted(self, samples: list[Sample]) -> list[Sample]:
        lengths = torch.tensor([int(sample.chosen.sum()) for sample in samples])
        episodes = torch.tensor([sample.episode for sample in samples])
        weights = token_weights(self._options.loss, lengths, episodes)
        return [
            replace(sample, weight=float(weight))
            for sample, weight in zip(samples, weights, strict=True)
        ]

    def _mine(self, samples: Sequence[Sample]) -> list[list[Sample]]:
        """This process's micro-batches; all have as many, for each gathers the others' weights."""
        processes = self._processes
        share = -(-sum(map(size_of, samples)) // processes.size)
        batches = list(micro_batches(samples, min(self._options.tokens_max, share)))
        # One that weighs nothing keeps a process without work in step with the others.
        idle = [replace(sample, weight=0.0) for sample in samples[:1]]
        batches += [idle] * (-len(batches) % processes.size)
        return batches[processes.rank :: processes.size]

    def _accumulate(
        self, samples: Sequence[Sample], number: int, old: list[PerToken], sums: Sums
    ) -> None:
        batch, packed = self._scored(samples, old[number] if number < len(old) else None)
        if number == len(old):
            old.append(batch.old_logprobs)
        result = policy_loss(batch, self._options.loss)
        # FSDP takes the mean of the processes' gradients; the loss is their sum.
        (result.loss * self._processes.size).backward()
        if any(sample.weight for sample in samples):
            sums.add(packed, batch, result, self._options.loss.kl_estimator)

    def _scored(
        self, samples: Sequence[Sample], old: PerToken | None
    ) -> tuple[TokenBatch, PackedRows]:
        """Everything about a micro-batch, on this process's device; what is of rows, per token."""
        device = self._processes.device
        rows = pack([sample.row for sample in samples])
        packed, sampled = rows.to(device), self._distribution(samples, rows).to(device)
        reference = self._reference_logprobs(packed, sampled)
        logprobs = self._scorer(packed, sampled)
        kept = torch.cat([sample.chosen for sample in samples]).to(device)
        behaviour = torch.tensor([p for each in samples for p in each.row.inference_logprobs])
        advantages = torch.tensor([each.advantage for each in samples])[rows.row]
        weights = torch.tensor([each.weight for each in samples])[rows.row]
        batch = TokenBatch(
            logprobs=logprobs[kept],
            # In the first pass the policy is the one at the start of the step.
            old_logprobs=logprobs.detach()[kept] if old is None else old,
            inference_logprobs=behaviour.to(device)[kept],
            advantages=advantages.to(device)[kept],
            sequence=packed.row[kept],
            weights=weights.to(device)[kept],
            reference_logprobs=None if reference is None else reference[kept],
        )
        return batch, packed

    @torch.no_grad()
    def _reference_logprobs(self, packed: PackedRows, sampled: Distribution) -> PerToken | None:
        return None if self._reference is None else self._reference(packed, sampled)

    def _distribution(self, samples: Sequence[Sample], packed: PackedRows) -> Distribution:
        temperature = torch.tensor([sample.row.temperature for sample in samples])[packed.row]
        if all(sample.legal is None for sample in samples):
            return Distribution(temperature, None)
        return Distribution(temperature, torch.cat([self._legal(each) for each in samples]))

    def _legal(self, sample: Sample) -> LegalBits:
        if sample.legal is not None:
            return sample.legal
        words = -(-self._vocabulary // BITS)
        return torch.full((len(sample.row.completion_ids), words), -1, dtype=torch.int32)

    def _apply(self, metrics: dict[str, float]) -> StepResult:
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self._options.gradient_norm_max
        )
        metrics["gradient_norm"] = float(gathered(norm, kept=True))
        finite = all(torch.isfinite(torch.tensor(value)) for value in metrics.values())
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return StepResult(finite, metrics)

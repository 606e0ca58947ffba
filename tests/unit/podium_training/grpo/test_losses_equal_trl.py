from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack
from podium_training.grpo.objective.losses import (
    Level,
    Loss,
    LossOptions,
    TokenBatch,
    policy_loss,
    token_weights,
)
from unit.podium_training.grpo.builders import make_group, make_model
from unit.podium_training.grpo.trl_reference import trl_loss

ROWS = [*make_group(1), *make_group(2)]
ADVANTAGES = [1.2, -0.7, 0.3, -0.8, 0.5, 0.9, -1.6, 0.2]
# Far enough from 1 that every clip is met.
OFF_POLICY = 0.6
OPTIONS = {
    "grpo": LossOptions(loss=Loss.GRPO),
    "dr_grpo": LossOptions(loss=Loss.DR_GRPO, length_max=16),
    "dapo": LossOptions(loss=Loss.DAPO),
    "bnpo": LossOptions(loss=Loss.BNPO),
    "cispo": LossOptions(loss=Loss.CISPO),
    "gspo": LossOptions(loss=Loss.GRPO, level=Level.SEQUENCE),
    "dual clip": LossOptions(loss=Loss.DAPO, dual_clip=1.5),
    "kl": LossOptions(loss=Loss.DAPO, kl_coefficient=0.1, kl_unbiased=False),
    "unbiased kl": LossOptions(loss=Loss.DAPO, kl_coefficient=0.1),
}


def logprobs(model: LlamaForCausalLM, rows: list[Row]) -> Tensor:
    packed = pack(rows)
    return token_logprobs(model, packed, Distribution(torch.ones(len(packed.targets)), None))


def batch_of(model: LlamaForCausalLM, rows: list[Row], options: LossOptions) -> TokenBatch:
    current = logprobs(model, rows)
    row = pack(rows).row
    lengths = torch.tensor([len(each.completion_ids) for each in rows])
    old = current.detach() + OFF_POLICY * torch.sin(torch.arange(len(current)).float())
    return TokenBatch(
        logprobs=current,
        old_logprobs=old,
        inference_logprobs=old,
        advantages=torch.tensor(ADVANTAGES)[row],
        sequence=row,
        weights=token_weights(options, lengths)[row],
        reference_logprobs=current.detach() - 0.3 if options.kl_coefficient else None,
    )


def padded(values: Tensor, rows: list[Row]) -> Tensor:
    """(rows, longest) from flat tokens."""
    parts = torch.split(values, [len(row.completion_ids) for row in rows])
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


def gradient(model: LlamaForCausalLM) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", OPTIONS)
def test_loss_and_gradient_are_those_of_trl(name: str, tmp_path: Path) -> None:
    options = OPTIONS[name]
    ours, theirs = make_model(), make_model()
    batch = batch_of(ours, ROWS, options)
    found = policy_loss(batch, options).loss
    reference = batch.reference_logprobs
    expected = trl_loss(
        theirs,
        ROWS,
        ADVANTAGES,
        options,
        tmp_path,
        old=padded(batch.old_logprobs, ROWS),
        reference=None if reference is None else padded(reference, ROWS),
    )
    # Our attention and theirs add up in different orders.
    assert found.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    found.backward()
    expected.backward()
    assert (gradient(ours) - gradient(theirs)).norm() / gradient(theirs).norm() < 2e-5


@pytest.mark.parametrize("name", OPTIONS)
def test_splitting_a_batch_changes_nothing(name: str) -> None:
    options = OPTIONS[name]
    whole, split = make_model(), make_model()
    batch = batch_of(whole, ROWS, options)
    policy_loss(batch, options).loss.backward()
    for rows in (slice(0, 3), slice(3, 8)):
        chosen = torch.isin(batch.sequence, torch.arange(8)[rows])
        share = replace(
            batch,
            **{
                field: value[chosen]
                for field, value in vars(batch).items()
                if value is not None and field != "logprobs"
            },
            logprobs=logprobs(split, ROWS[rows]),
        )
        policy_loss(share, options).loss.backward()
    assert (gradient(whole) - gradient(split)).norm() / gradient(whole).norm() < 2e-5


def test_stale_samples_weigh_at_most_the_cap() -> None:
    options = LossOptions(importance_cap=2.0)
    batch = batch_of(make_model(), ROWS, options)
    rare = replace(batch, inference_logprobs=batch.old_logprobs - 5.0)
    capped, plain = (policy_loss(each, options) for each in (rare, batch))
    assert capped.loss.item() == pytest.approx(2.0 * plain.loss.item(), rel=1e-5)
    assert capped.truncated == len(batch.weights)

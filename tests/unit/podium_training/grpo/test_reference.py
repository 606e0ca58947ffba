import copy
from functools import partial

import pytest
import torch

from podium_training.grpo.learner import Learner, StepOptions
from podium_training.grpo.objective.losses import KlEstimator, LossOptions, kl
from unit.podium_training.grpo.builders import make_model
from unit.podium_training.grpo.test_learner import (
    GRAMMAR,
    VOCABULARY,
    WORDS,
    logprobs_of,
    make_group,
    make_learner,
)

# The second letter of a word is its only token that was chosen.
CHOSEN = 2


def make_kept(
    coefficient: float, estimator: KlEstimator = KlEstimator.K3, rate: float = 0.5
) -> Learner:
    loss = LossOptions(kl_coefficient=coefficient, kl_estimator=estimator)
    make_optimizer = partial(torch.optim.SGD, lr=rate)
    options = StepOptions(loss, drift_stop=100)
    reference = make_model(0, VOCABULARY)
    return Learner(make_model(0, VOCABULARY), make_optimizer, GRAMMAR, options, reference=reference)


def distance(learner: Learner) -> float:
    """From the model that all begin as, over the words that can be chosen; in nats."""
    found, begun = (
        torch.stack([logprobs_of(each, word)[CHOSEN] for word in WORDS])
        for each in (learner, make_learner())
    )
    return float((found.exp() * (found - begun)).sum())


@pytest.mark.parametrize("estimator", KlEstimator)
def test_the_divergence_is_of_the_tokens_that_were_chosen(estimator: KlEstimator) -> None:
    learner = make_kept(0.001, estimator)
    group = make_group(learner)
    assert learner.step([group]).metrics["kl_mean"] == pytest.approx(0.0, abs=1e-7)
    ours, theirs = (
        torch.stack([logprobs_of(each, word)[CHOSEN] for word in WORDS])
        for each in (learner, make_learner())
    )
    expected = float(kl(ours, theirs, estimator).mean())
    assert abs(expected) > 1e-3
    assert learner.step([group]).metrics["kl_mean"] == pytest.approx(expected, rel=1e-3)


def test_without_a_reference_no_divergence_is_reported() -> None:
    learner = make_learner()
    assert "kl_mean" not in learner.step([make_group(learner)]).metrics


def test_the_more_expensive_the_divergence_the_nearer_the_policy_stays() -> None:
    distances = []
    for coefficient in (0.0, 5.0):
        learner = make_kept(coefficient, rate=0.02)
        for _ in range(10):
            learner.step([make_group(learner)])
        distances.append(distance(learner))
    free, kept = distances
    assert 0 < 2 * kept < free


def test_episodes_as_good_as_their_groups_mean_still_draw_the_policy_back() -> None:
    learner = make_kept(1.0, rate=0.02)
    for _ in range(5):
        learner.step([make_group(learner)])
    before = distance(learner)
    agreed = learner.step([make_group(learner, (0.0, 0.0))])
    assert agreed.metrics["tokens_trained"] == len(WORDS)
    assert distance(learner) < before


def test_a_reference_stays_as_it_is() -> None:
    reference = make_model(1, VOCABULARY)
    before = copy.deepcopy(reference.state_dict())
    learner = Learner(
        make_model(0, VOCABULARY),
        partial(torch.optim.SGD, lr=0.5),
        GRAMMAR,
        StepOptions(LossOptions(kl_coefficient=1.0)),
        reference=reference,
    )
    result = learner.step([make_group(learner)])
    assert result.applied
    assert result.metrics["kl_mean"] > 0
    assert all(torch.equal(before[name], value) for name, value in reference.state_dict().items())
    assert set(learner.gathered()[0]) == set(dict(learner.model.named_parameters()))

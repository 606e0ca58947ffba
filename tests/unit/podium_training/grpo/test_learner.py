"""A learner's steps, with and without a reference."""

import copy
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from podium_training.grpo.byte_adamw import ByteAdamW
from podium_training.grpo.checkpoints import Checkpoint
from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.data.episodes import Episode, GroupKey, Rejected
from podium_training.grpo.data.groups import Group
from podium_training.grpo.learner import DriftTooLarge, Learner, StepOptions
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack
from podium_training.grpo.objective.losses import KlEstimator, Loss, LossOptions, kl
from podium_training.grpo.objective.rewards import Features, Preferences
from podium_training.grpo.replay import differences
from podium_training.grpo.trainer import TrainerOptions
from unit.podium_training.grpo.builders import make_model, make_tokenizer

TOKENIZER = make_tokenizer()
VOCABULARY = len(TOKENIZER)
CONSTRAINT = Constraint('{"enum":["add","ask"]}', any_whitespace=False)
GRAMMAR = GrammarReplay(TOKENIZER, VOCABULARY)
PROMPT = (5, 6, 7)
WORDS = ("add", "ask")


def ids_of(text: str) -> tuple[int, ...]:
    return (*(TOKENIZER.convert_tokens_to_ids(letter) for letter in text), 1)


def make_learner(seed: int = 0, rate: float = 0.0, **options: object) -> Learner:
    model = make_model(seed, VOCABULARY)
    return Learner(model, partial(torch.optim.SGD, lr=rate), GRAMMAR, StepOptions(**options))  # type: ignore[arg-type]


def logprobs_of(learner: Learner, word: str) -> torch.Tensor:
    ids = ids_of(f'"{word}"')
    row = Row(PROMPT, ids, (0.0,) * len(ids), constraint="c")
    legal = GRAMMAR.legal(CONSTRAINT, ids)
    with torch.no_grad():
        return token_logprobs(learner.model, pack([row]), Distribution(torch.ones(len(ids)), legal))


def probability(learner: Learner, word: str) -> float:
    return float(logprobs_of(learner, word).sum().exp())


def make_group(learner: Learner, advantages: tuple[float, ...] = (1.0, -1.0)) -> Group:
    """ "add" was better than "ask", each sampled from the learner's own distribution."""
    members = []
    for number, word in enumerate(WORDS):
        behaviour = tuple(logprobs_of(learner, word).tolist())
        row = Row(PROMPT, ids_of(f'"{word}"'), behaviour, constraint="c")
        members.append(
            Episode(
                id=f"e{number}",
                group=GroupKey("acme", "g"),
                group_size=2,
                task_id="t",
                rows=(row,),
                constraints={"c": CONSTRAINT},
                tools=(),
                features=Features((), solved=True, cost=0.0, latency_s=0.0),
                currency="USD",
                preferences=Preferences((), 1.0, 0.0, 0.0),
                model_versions=("1",),
            )
        )
    key = members[0].group
    return Group(key, tuple(members), (1.0, 0.0), members[0].preferences, advantages)


@pytest.mark.parametrize(("rate", "clipped"), [(0.01, True), (0.0001, False)])
def test_later_passes_move_what_is_not_clipped(rate: float, clipped: bool) -> None:
    once, thrice = make_learner(rate=rate), make_learner(rate=rate, passes=3)
    group = make_group(once)
    once.step([group])
    result = thrice.step([group])
    assert (result.metrics["clipped_share"] > 0) is clipped
    assert (probability(thrice, "add") == probability(once, "add")) is clipped


def test_what_a_grammar_forbids_is_rejected_before_it_reaches_a_step() -> None:
    learner = make_learner()
    learner.check(make_group(learner).members[0])
    for ids, schema in ((ids_of('"sub"'), CONSTRAINT.json_schema), (ids_of('"add"'), "{no schema")):
        row = Row(PROMPT, ids, (-1.0,) * len(ids), constraint="c")
        constraints = {"c": Constraint(schema, any_whitespace=False)}
        member = make_group(learner).members[0]
        with pytest.raises(Rejected, match="broken constraint"):
            learner.check(replace(member, rows=(row,), constraints=constraints))


def test_the_better_action_becomes_likelier() -> None:
    learner = make_learner(rate=0.5)
    before = probability(learner, "add")
    for _ in range(5):
        learner.step([make_group(learner)])
    assert probability(learner, "add") > before


def test_behaviour_under_the_same_grammar_does_not_drift() -> None:
    learner = make_learner()
    result = learner.step([make_group(learner)])
    assert result.metrics["drift_max"] < 1e-5


def test_only_tokens_with_a_choice_are_trained() -> None:
    """Only the second letter of `"add"` and `"ask"` was chosen."""
    learner = make_learner()
    assert learner.step([make_group(learner)]).metrics["tokens_trained"] == 2


def test_a_group_without_differences_halves_the_step_and_is_not_computed() -> None:
    learner = make_learner(gradient_norm_max=math.inf)
    group, agreed = make_group(learner), make_group(learner, (0.0, 0.0))
    alone = learner.step([group]).metrics
    beside = learner.step([group, agreed]).metrics
    assert beside["gradient_norm"] == pytest.approx(alone["gradient_norm"] / 2)
    assert beside["tokens_computed"] == alone["tokens_computed"]


@pytest.mark.parametrize("loss", [Loss.GRPO, Loss.DR_GRPO])
def test_the_mean_over_episodes_is_none_over_their_calls(loss: Loss) -> None:
    """One call against three of the same, beside a member that is average."""
    learner = make_learner(loss=LossOptions(loss=loss), gradient_norm_max=math.inf)
    once, other = make_group(learner).members
    thrice = replace(once, rows=once.rows * 3)
    alone, repeated = (
        Group(once.group, (each, other), (1.0, 0.0), once.preferences, (1.0, 0.0))
        for each in (once, thrice)
    )
    one, three = (learner.step([group]).metrics["gradient_norm"] for group in (alone, repeated))
    # The constant length does not shrink what is learnt of more tokens.
    assert three == pytest.approx(one * (3 if loss is Loss.DR_GRPO else 1), rel=1e-4)


@pytest.mark.parametrize("tokens_max", [1, 20, 10_000])
def test_the_step_is_the_same_however_the_batch_is_split(tokens_max: int) -> None:
    whole = make_learner(rate=0.5)
    groups = [make_group(whole), make_group(whole, (-0.5, 0.5))]
    split = make_learner(rate=0.5, tokens_max=tokens_max)
    whole.step(groups)
    split.step(groups)
    for ours, theirs in zip(split.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_rows_under_one_grammar_share_their_prompt_in_whatever_order_they_come() -> None:
    learner = make_learner()
    first, second = make_group(learner), make_group(learner)
    other = [
        replace(
            member,
            rows=tuple(replace(row, constraint="d") for row in member.rows),
            constraints={"d": CONSTRAINT},
        )
        for member in second.members
    ]
    second = replace(second, members=tuple(other))
    together = learner.step([first, first, second, second]).metrics["tokens_computed"]
    assert learner.step([first, second, first, second]).metrics["tokens_computed"] == together


def test_a_server_with_another_policy_stops_the_training() -> None:
    learner = make_learner(rate=0.5)
    before = copy.deepcopy(learner.model.state_dict())
    group = make_group(learner)
    foreign = [
        replace(
            member,
            rows=tuple(
                replace(row, inference_logprobs=tuple(p - 5 for p in row.inference_logprobs))
                for row in member.rows
            ),
        )
        for member in group.members
    ]
    with pytest.raises(DriftTooLarge, match="nats"):
        learner.step([replace(group, members=tuple(foreign))])
    assert all(
        torch.equal(before[name], value) for name, value in learner.model.state_dict().items()
    )


def test_imitation_makes_likelier_what_another_did_however_unlikely_it_was() -> None:
    imitation = LossOptions(loss=Loss.IMITATION)
    learner = make_learner(rate=0.5, loss=imitation, drift_stop=0.01)
    group = make_group(learner, (1.0, 0.0))
    certain = [
        replace(
            member,
            rows=tuple(
                replace(row, inference_logprobs=(0.0,) * len(row.completion_ids))
                for row in member.rows
            ),
        )
        for member in group.members
    ]
    before = probability(learner, "add")
    for _ in range(5):
        learner.step([replace(group, members=tuple(certain))])
    assert probability(learner, "add") > before


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    learner = make_learner(rate=0.5)
    before = copy.deepcopy(learner.model.state_dict())
    result = learner.step([make_group(learner, (float("inf"), -1.0))])
    assert not result.applied
    assert all(
        torch.equal(before[name], value) for name, value in learner.model.state_dict().items()
    )


def test_a_step_at_no_rate_learns_nothing_and_the_next_is_taken_at_the_full_one() -> None:
    learner = make_learner(rate=0.5)
    before = probability(learner, "add")
    learner.step([make_group(learner)], rate=0.0)
    assert probability(learner, "add") == before
    learner.step([make_group(learner)])
    assert probability(learner, "add") > before


def test_the_rate_falls_in_a_straight_line_over_the_last_steps() -> None:
    options = TrainerOptions(8, 1, 1, 1.0, decay_start=0.5)
    assert [options.rate(step) for step in range(1, 9)] == [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]
    level = TrainerOptions(8, 1, 1, 1.0)
    assert {level.rate(step) for step in range(1, 9)} == {1.0}


def test_a_checkpoint_of_other_weights_is_rejected_before_any_change() -> None:
    learner = make_learner()
    before = copy.deepcopy(learner.model.state_dict())
    weights, optimizer = learner.gathered()
    name, value = next(iter(weights.items()))
    fewer = {each: weights[each] for each in weights if each != name}
    for other in (fewer, weights | {"lora_A": value}, weights | {name: value[:1]}):
        with pytest.raises(InvalidConfig, match="set `lora` and `model` back"):
            learner.restore({each: torch.zeros_like(other[each]) for each in other}, optimizer)
    assert all(
        torch.equal(before[name], value) for name, value in learner.model.state_dict().items()
    )


@pytest.mark.parametrize("kind", [torch.optim.AdamW, ByteAdamW])
def test_settings_of_the_optimizer_that_were_changed_are_obeyed(
    kind: type[torch.optim.AdamW | ByteAdamW],
) -> None:
    first, second = (
        Learner(
            make_model(0, VOCABULARY),
            partial(kind, lr=0.01, weight_decay=decay),
            GRAMMAR,
            StepOptions(),
        )
        for decay in (0.1, 0.0)
    )
    first.step([make_group(first)])
    second.restore(*first.gathered())
    [group] = second.optimizer.param_groups
    assert group["weight_decay"] == 0.0
    ours, theirs = (each.optimizer.state_dict()["state"] for each in (second, first))
    assert theirs and differences(*(Checkpoint(1, {}, each, {}) for each in (ours, theirs))) == []


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

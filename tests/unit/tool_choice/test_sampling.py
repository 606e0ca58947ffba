"""Choices are drawn from the policy's own distribution under the grammar, token for token."""

import json
from collections import Counter

import pytest
import torch
from torch import Tensor

from grpo.grammar import Constraint, GrammarReplay, unpacked
from grpo.rewards import Features, Preferences
from tool_choice.openings import Openings
from tool_choice.questions import Question
from tool_choice.sampling import ChoiceDistribution, ChoiceSampler, systematic
from unit.grpo.builders import make_model, make_tokenizer

TOKENIZER = make_tokenizer()
VOCABULARY = len(TOKENIZER)
GRAMMAR = GrammarReplay(TOKENIZER, VOCABULARY)
NAMES = ("add", "adjust", "look")
CONSTRAINT = Constraint(json.dumps({"enum": NAMES}), any_whitespace=False)


def make_question(prompt: tuple[int, ...] = (5, 6, 7)) -> Question:
    """The first name is right."""
    outcomes = {
        json.dumps(name): Features(
            tuple(int(name == each) for each in NAMES), name == NAMES[0], cost=0.0, latency_s=0.0
        )
        for name in NAMES
    }
    preferences = Preferences((0.0,) * len(NAMES), 1.0, 0.0, 0.0)
    return Question("q", prompt, CONSTRAINT, outcomes, NAMES, preferences)


@pytest.fixture(scope="module")
def openings() -> Openings:
    return Openings(GRAMMAR, TOKENIZER, VOCABULARY)


@pytest.fixture(scope="module")
def sampler(openings: Openings) -> ChoiceSampler:
    return ChoiceSampler(
        make_model(0, VOCABULARY), GRAMMAR, openings, torch.Generator().manual_seed(0)
    )


@pytest.fixture(scope="module")
def found(sampler: ChoiceSampler) -> list[ChoiceDistribution]:
    return sampler.distributions([make_question((5, 6, 7)), make_question((5, 9))])


def test_an_opening_ends_where_the_choice_is_decided(openings: Openings) -> None:
    texts = {each.choice: TOKENIZER.decode(each.ids) for each in openings.of(make_question())}
    assert texts == {'"add"': '"add', '"adjust"': '"adj', '"look"': '"l'}


def test_the_openings_of_a_question_are_all_that_can_happen(
    found: list[ChoiceDistribution],
) -> None:
    for distribution in found:
        assert float(distribution.probabilities.sum()) == pytest.approx(1.0, abs=1e-5)


def test_an_opening_is_as_likely_as_the_model_alone_says(
    found: list[ChoiceDistribution],
) -> None:
    for distribution in found:
        for choice in distribution.choices:
            expected = one_by_one(choice.row.prompt_ids, choice.row.completion_ids)
            torch.testing.assert_close(
                torch.tensor(choice.row.behaviour_logprobs), expected, atol=1e-5, rtol=0
            )


def test_the_likeliest_choice_has_the_likeliest_openings(
    sampler: ChoiceSampler, found: list[ChoiceDistribution]
) -> None:
    [likeliest] = sampler.likeliest([make_question()])
    best = int(found[0].probabilities.argmax())
    assert likeliest == found[0].choices[best].text


def test_a_group_holds_each_choice_as_often_as_it_is_likely(
    sampler: ChoiceSampler, found: list[ChoiceDistribution]
) -> None:
    [drawn] = sampler.sample([make_question()], 50)
    counts = Counter(choice.text for choice in drawn)
    for choice, probability in zip(found[0].choices, found[0].probabilities, strict=True):
        assert abs(counts[choice.text] - 50 * float(probability)) < 1


def test_over_many_groups_a_rare_choice_comes_as_often_as_it_should() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.tensor([0.02, 0.9, 0.08])
    drawn = torch.cat([systematic(probabilities, 4, generator) for _ in range(5000)])
    shares = torch.bincount(drawn, minlength=3) / len(drawn)
    torch.testing.assert_close(shares, probabilities, atol=0.003, rtol=0)


def one_by_one(prompt: tuple[int, ...], completion: tuple[int, ...]) -> Tensor:
    """Log-probabilities of a completion, every token by a pass of its own over plain ids."""
    model = make_model(0, VOCABULARY)
    legal = unpacked(GRAMMAR.legal(CONSTRAINT, completion), VOCABULARY)
    values = []
    for place, token in enumerate(completion):
        ids = torch.tensor([[*prompt, *completion[:place]]])
        with torch.no_grad():
            logits = model(ids).logits[0, -1]
        values.append(logits.masked_fill(~legal[place], float("-inf")).log_softmax(-1)[token])
    return torch.stack(values)

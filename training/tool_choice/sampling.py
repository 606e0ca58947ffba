"""Samples choices from the policy's exact distribution under a grammar, in this process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo.forward import Distribution, token_logprobs
from grpo.grammar import GrammarReplay
from grpo.samples import Row
from grpo.trie import pack
from tool_choice.openings import Openings
from tool_choice.questions import Choice, Question


@dataclass(frozen=True)
class ChoiceDistribution:
    """Every opening of a question, and how likely it is; the likelihoods add up to 1."""

    choices: tuple[Choice, ...]
    probabilities: Tensor
    """(openings,) float32."""


class ChoiceSampler:
    """Temperature 1, the whole legal distribution; reproducible from its generator.

    One forward pass over the openings of a batch of questions, which share their prompts.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        grammar: GrammarReplay,
        openings: Openings,
        generator: torch.Generator,
    ) -> None:
        self._model = model
        self._grammar = grammar
        self._openings = openings
        self._generator = generator

    def sample(self, questions: Sequence[Question], count: int) -> list[list[Choice]]:
        """`count` choices for each question, spread over its distribution."""
        return [self._drawn(each, count) for each in self.distributions(questions)]

    def likeliest(self, questions: Sequence[Question]) -> list[str]:
        """The choice each question's policy makes most often."""
        return [_likeliest(each) for each in self.distributions(questions)]

    @torch.no_grad()
    def distributions(self, questions: Sequence[Question]) -> list[ChoiceDistribution]:
        """What the policy would choose, and how often."""
        choices = [self._possible(question) for question in questions]
        rows = [choice.row for each in choices for choice in each]
        legal = torch.cat([self._legal(question) for question in questions])
        packed = pack(rows)
        sampled = Distribution(torch.ones(len(packed.targets)), legal)
        logprobs = token_logprobs(self._model, packed, sampled)
        parts = iter(logprobs.split([len(row.completion_ids) for row in rows]))
        return [_distribution(each, [next(parts) for _ in each]) for each in choices]

    def _possible(self, question: Question) -> list[Choice]:
        return [
            Choice(
                Row(
                    question.prompt_ids,
                    opening.ids,
                    (0.0,) * len(opening.ids),
                    constraint=question.constraint.digest,
                ),
                opening.choice,
            )
            for opening in self._openings.of(question)
        ]

    def _legal(self, question: Question) -> Tensor:
        replayed = [
            self._grammar.legal(question.constraint, opening.ids)
            for opening in self._openings.of(question)
        ]
        return torch.cat(replayed)

    def _drawn(self, found: ChoiceDistribution, count: int) -> list[Choice]:
        places = systematic(found.probabilities, count, self._generator)
        return [found.choices[place] for place in places.tolist()]


def systematic(probabilities: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(count,) places, each by itself as likely as `probabilities` says, and no clusters.

    One random start and equal steps (systematic sampling, Madow 1944): a place comes `count`
    times its probability, rounded up or down. So do neighbours together. A group drawn so says
    more about its question than independent draws, whose counts vary by chance.
    """
    marks = (torch.arange(count) + torch.rand((), generator=generator)) / count
    last = len(probabilities) - 1
    return torch.searchsorted(probabilities.cumsum(0), marks, right=True).clamp(max=last)


def _distribution(choices: Sequence[Choice], logprobs: Sequence[Tensor]) -> ChoiceDistribution:
    rows = (
        replace(choice.row, behaviour_logprobs=tuple(each.tolist()))
        for choice, each in zip(choices, logprobs, strict=True)
    )
    named = tuple(replace(c, row=row) for c, row in zip(choices, rows, strict=True))
    return ChoiceDistribution(named, torch.stack([each.sum() for each in logprobs]).exp())


def _likeliest(found: ChoiceDistribution) -> str:
    totals: dict[str, float] = {}
    for choice, probability in zip(found.choices, found.probabilities.tolist(), strict=True):
        totals[choice.text] = totals.get(choice.text, 0.0) + probability
    return max(totals, key=totals.__getitem__)

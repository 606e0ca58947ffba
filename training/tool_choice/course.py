"""The loop: questions to groups to steps, on the policy's own fresh choices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from grpo.groups import Group, GroupAssembler, compared
from grpo.learner import Learner, StepResult
from tool_choice.questions import Question, episodes
from tool_choice.sampling import ChoiceSampler


@dataclass(frozen=True)
class CourseOptions:
    """How much is asked for one step."""

    questions: int = 12
    members: int = 8
    """Choices of a question: a group."""


class Course:
    """Asks, compares, learns."""

    def __init__(
        self,
        learner: Learner,
        sampler: ChoiceSampler,
        assembler: GroupAssembler,
        questions: Iterator[Question],
        options: CourseOptions,
    ) -> None:
        self._learner = learner
        self._sampler = sampler
        self._assembler = assembler
        self._questions = questions
        self._options = options
        self._numbers = count()

    def step(self, rate: float = 1.0) -> StepResult | None:
        """One step on fresh choices, at a share of the learning rate; None without any group."""
        groups = self._asked(list(islice(self._questions, self._options.questions)))
        return self._learner.step(groups, rate) if groups else None

    def _asked(self, questions: Sequence[Question]) -> list[Group]:
        groups = []
        sampled = self._sampler.sample(questions, self._options.members)
        for question, choices in zip(questions, sampled, strict=True):
            members = episodes(question, choices, f"{question.id}-{next(self._numbers)}")
            closed = [self._assembler.add(member) for member in members][-1]
            if closed is not None:
                groups.append(closed)
        return compared(groups, self._assembler.estimator)


def accuracy(sampler: ChoiceSampler, questions: Sequence[Question], at_once: int = 50) -> float:
    """Share of the questions whose likeliest choice solves them."""
    parts = (questions[start : start + at_once] for start in range(0, len(questions), at_once))
    choices = [choice for part in parts for choice in sampler.likeliest(part)]
    solved = [
        question.outcomes[choice].solved
        for question, choice in zip(questions, choices, strict=True)
    ]
    return sum(solved) / len(solved)

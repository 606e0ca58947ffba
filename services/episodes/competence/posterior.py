"""The probability that a tool is right about a task, from its results in earlier tasks.

A Beta posterior over kernel-weighted neighbours: each earlier result counts by the similarity of
its task and by how many newer ones there are. Its prior is the tool's record over all tasks, whose
own prior is even. tests/bench/competence measures the constants.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Cosine similarity from which on a task counts in full, and the step below that divides its weight
# by e.
FULL_SIMILARITY, SIMILARITY_STEP = 0.4, 0.05
# A task that would count less counts nothing: hundreds of them would outweigh the similar ones.
WEIGHT_MIN = 0.1
# A result counts half after so many newer ones, in similar tasks of the tool.
HALF_LIFE = 10.0
# The weight of the record over all tasks, in similar tasks.
PRIOR_TASKS = 3.0


@dataclass(frozen=True)
class Result:
    """The score of an answer, from 0 to 1, and the similarity of its task to the one at hand."""

    similarity: float
    score: float


@dataclass(frozen=True)
class Posterior:
    similar_tasks: float
    """Sum of weights; at most 15, because old results fade."""
    right: float
    """Sum of weighted scores."""
    probability: float


def posterior(newest_first: Sequence[Result]) -> Posterior:
    tasks, right_ever = _faded((1.0, each.score) for each in newest_first)
    prior = (right_ever + 1) / (tasks + 2)
    similar, right = _faded((weight(each.similarity), each.score) for each in newest_first)
    probability = (right + PRIOR_TASKS * prior) / (similar + PRIOR_TASKS)
    return Posterior(similar, right, probability)


def weight(similarity: float) -> float:
    counted = math.exp(min(0.0, (similarity - FULL_SIMILARITY) / SIMILARITY_STEP))
    return counted if counted >= WEIGHT_MIN else 0.0


def _faded(newest_first: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Returns the sums of weights and of weighted scores, with weights halved by newer ones."""
    newer = total = scored = 0.0
    for own, score in newest_first:
        if not own:
            continue
        counted = own * 0.5 ** (newer / HALF_LIFE)
        total, scored, newer = total + counted, scored + counted * score, newer + own
    return total, scored

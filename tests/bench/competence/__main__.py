"""`python -m bench.competence`: how well records in similar tasks predict which expert is right.

The simulated experts of bundled/experts.yaml are asked by chance about tasks of training; their
records then predict how strong they are in held-out tasks, whose phrasings training lacks. The true
strength is known, so a prediction has an exact error. Measured are ways to find similar tasks, and
how soon a record follows an expert that changes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean
from time import process_time

import bm25s  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from bench.figures import Figures, say
from episodes.competence.convert import SIMILAR_TASKS_MIN
from episodes.competence.posterior import FULL_SIMILARITY, Result, posterior
from episodes.competence.service import (
    EPISODES_MAX,
    Example,
    records,
    without_numbers,
)
from episodes.competence.store import Verified
from podium_kit.bundled_files import bundled_folder
from podium_kit.models.static_embeddings import StaticEmbeddings
from podium_training.experts.pool import Expert, read_pool
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES, generate

Similarities = NDArray[np.float64]
Finder = Callable[[Sequence[Task], Sequence[Task]], Similarities]
SIZES, SEEDS, ASKED = (100, 400), range(1, 4), 120
# The similarity that counts in full: every finder has its best of these.
FULL = (0.3, 0.4, 0.5)
ROUNDS = 50
EMBEDDINGS = StaticEmbeddings()
CHANGED_FAMILY, CHANGES_AFTER, CHANGED_FOR = "units", 60, (0, 10, 20, 30, 60)


def main() -> None:
    figures = Figures("competence")
    experts = read_pool(bundled_folder() / "experts.yaml").experts
    for size in SIZES:
        say(f"{size} verified episodes")
        for name, finder in FINDERS.items():
            figures.note(f"{size}.{name}", _best(experts, size, finder))
    figures.note("right in similar tasks, after a change", _changed(experts))
    figures.note("milliseconds to find the records", _milliseconds())
    figures.write()


def _best(experts: Sequence[Expert], size: int, finder: Finder) -> dict[str, float]:
    """Returns the mean square error of the probabilities, the accuracy of asking the expert with
    the highest one, and the share of experts whose record is stated."""
    runs = [_Run(experts, size, seed, finder) for seed in SEEDS]
    found = [_measured(runs, experts, full) for full in FULL]
    return min(found, key=lambda each: each["error"])


class _Run:
    """The verified episodes, and the tasks to predict."""

    def __init__(self, experts: Sequence[Expert], size: int, seed: int, finder: Finder) -> None:
        random = Random(seed)
        self.known = generate(size, Split.TRAIN, seed)
        random.shuffle(self.known)
        self.asked = generate(ASKED, Split.HELD_OUT, seed)
        self.expert = [random.choice(experts) for _ in self.known]
        pairs = zip(self.known, self.expert, strict=True)
        self.scores = [float(expert.is_right(task, seed)) for task, expert in pairs]
        self.similarities = finder(self.asked, self.known)


def _measured(runs: Sequence[_Run], experts: Sequence[Expert], full: float) -> dict[str, float]:
    errors, right, stated = [], [], []
    for run in runs:
        shifted = run.similarities + FULL_SIMILARITY - full
        for task, row in zip(run.asked, shifted, strict=True):
            found = [posterior(_results(run, row, expert)) for expert in experts]
            strengths = [expert.families.get(task.family, expert.right) for expert in experts]
            errors += [
                (each.probability - strength) ** 2
                for each, strength in zip(found, strengths, strict=True)
            ]
            right.append(strengths[int(np.argmax([each.probability for each in found]))])
            stated += [float(each.similar_tasks >= SIMILAR_TASKS_MIN) for each in found]
    figures = {"error": fmean(errors), "accuracy": fmean(right), "stated": fmean(stated)}
    return {name: round(value, 4) for name, value in figures.items()}


def _results(run: _Run, row: Similarities, expert: Expert) -> list[Result]:
    """The newest first: tasks are asked in their order."""
    triples = zip(row[::-1], run.scores[::-1], run.expert[::-1], strict=True)
    return [Result(float(like), score) for like, score, asked in triples if asked is expert]


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack(asyncio.run(EMBEDDINGS.of(texts)))


def _embedded(prepared: Callable[[str], str]) -> Finder:
    def found(asked: Sequence[Task], known: Sequence[Task]) -> Similarities:
        rows, columns = (
            _vectors([prepared(task.question) for task in tasks]) for tasks in (asked, known)
        )
        return (rows @ columns.T).astype(np.float64)

    return found


def _clustered(asked: Sequence[Task], known: Sequence[Task]) -> Similarities:
    """1 in the same cluster of vectors, as many clusters as there are families; -1 elsewhere."""
    texts = [without_numbers(task.question) for task in (*asked, *known)]
    labels, _ = EMBEDDINGS._model.cluster(texts, k=len(FAMILIES))
    found = np.asarray(labels)
    same: Similarities = np.where(found[: len(asked), None] == found[None, len(asked) :], 1.0, -1.0)
    return same


def _by_words(asked: Sequence[Task], known: Sequence[Task]) -> Similarities:
    """BM25, relative to the most alike of the known tasks."""
    index = bm25s.BM25()
    index.index(bm25s.tokenize(_texts(known), show_progress=False), show_progress=False)
    words = bm25s.tokenize(_texts(asked), return_ids=False, show_progress=False)
    scores = np.array([index.get_scores(each) for each in words], dtype=np.float64)
    relative: Similarities = scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
    return relative


def _texts(tasks: Sequence[Task]) -> list[str]:
    return [without_numbers(task.question) for task in tasks]


def _by_family(asked: Sequence[Task], known: Sequence[Task]) -> Similarities:
    same = [[1.0 if one.family == other.family else -1.0 for other in known] for one in asked]
    return np.array(same)


def _alike_to_none(asked: Sequence[Task], known: Sequence[Task]) -> Similarities:
    return np.full((len(asked), len(known)), -1.0)


FINDERS: Mapping[str, Finder] = {
    "record over all tasks": _alike_to_none,
    "words (BM25)": _by_words,
    "clusters of vectors": _clustered,
    "vectors": _embedded(str),
    "vectors, numbers as one word": _embedded(without_numbers),
    "true families": _by_family,
}


def _changed(experts: Sequence[Expert]) -> dict[str, str]:
    """The record of the best expert of a family, by episodes since it became the worst; every other
    episode asks it, among those of all families."""
    before = max(experts, key=lambda each: each.families.get(CHANGED_FAMILY, each.right))
    finder, found = FINDERS["vectors, numbers as one word"], {}
    for after in CHANGED_FOR:
        counts = []
        for seed in SEEDS:
            random = Random(seed)
            known = generate(2 * (CHANGES_AFTER + after), Split.TRAIN, seed, [CHANGED_FAMILY])[::2]
            strengths = [before.families[CHANGED_FAMILY]] * CHANGES_AFTER + [0.1] * after
            scores = [float(random.random() < strength) for strength in strengths]
            asked = generate(20, Split.TRAIN, seed + 1, [CHANGED_FAMILY])
            for row in finder(asked, known):
                pairs = zip(row[::-1], scores[::-1], strict=True)
                counts.append(posterior([Result(float(like), score) for like, score in pairs]))
        right, similar = (
            fmean(getattr(each, name) for each in counts) for name in ("right", "similar_tasks")
        )
        found[f"{2 * after} episodes"] = f"{right:.1f} of {similar:.1f}"
    return found


def _milliseconds() -> float:
    """Processor time of a start for a tenant with as many verified episodes as count."""
    tasks = generate(EPISODES_MAX + ROUNDS, Split.TRAIN, 1)
    vectors = _vectors(_texts(tasks)).astype(np.float16)
    examples = [
        Example(Verified(task.id, task.id, frozenset({f"ask/{place % 4}"}), 1.0), vector)
        for place, (task, vector) in enumerate(zip(tasks, vectors, strict=True))
    ]
    began = process_time()
    for task in tasks[-ROUNDS:]:
        records(examples[:EPISODES_MAX], _vectors(_texts([task]))[0].astype(np.float16))
    return round((process_time() - began) / ROUNDS * 1000, 2)


if __name__ == "__main__":
    main()

"""Confidence of a mean difference between two policies on the same tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 10_000
# Resamples at once: 10,000 of 10,000 pairs would be 800 MB of indices.
_CHUNK = 500


@dataclass(frozen=True)
class Interval:
    """A mean with its one-sided bounds, each of which holds with the asked confidence."""

    mean: float
    lower: float
    upper: float


def paired_interval(
    differences: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the mean (Efron 1979) over pairs; the same seed, the same numbers.

    A pair is a task, however often it was played: resampling them keeps what a task does to both
    policies. Raises ValueError without pairs.
    """
    if not differences:
        raise ValueError("no pairs to compare")
    if len(set(differences)) == 1:
        # So is every resample of them.
        [same] = set(differences)
        return Interval(same, same, same)
    # Slow to import, and needed here alone.
    import numpy as np  # noqa: PLC0415

    values = np.asarray(differences, dtype=np.float64)
    draw = np.random.default_rng(seed)
    means = np.concatenate(
        [
            values[draw.integers(0, len(values), (_CHUNK, len(values)))].mean(axis=1)
            for _ in range(RESAMPLES // _CHUNK)
        ]
    )
    lower, upper = np.quantile(means, [1 - confidence, confidence])
    return Interval(float(values.mean()), float(lower), float(upper))

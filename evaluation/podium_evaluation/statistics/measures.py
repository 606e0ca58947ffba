"""Figures of one arm, beside its accuracy."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence


def pass_hat_k(solved: int, trials: int, k: int) -> float:
    """The chance that k trials of an item are all right: C(c, k) / C(n, k) (2406.12045)."""
    _check(solved, trials, k)
    return math.comb(solved, k) / math.comb(trials, k)


def pass_at_k(solved: int, trials: int, k: int) -> float:
    """The chance that one of k trials is right: 1 - C(n - c, k) / C(n, k) (2107.03374)."""
    _check(solved, trials, k)
    return 1 - math.comb(trials - solved, k) / math.comb(trials, k)


def _check(solved: int, trials: int, k: int) -> None:
    if not 0 <= solved <= trials or not 1 <= k <= trials:
        raise ValueError(f"{solved} of {trials} trials give no pass for k = {k}")


def gap_closed(score: float, best_fixed: float, oracle: float) -> float | None:
    """The share of the oracle's gap to the best fixed arm: (s - s_best) / (s_oracle - s_best).

    None where there is no gap.
    """
    return None if oracle <= best_fixed else (score - best_fixed) / (oracle - best_fixed)


def evenness(choices: Sequence[Hashable], known: int) -> float | None:
    """Entropy of the choices over that of all known ones, H / ln K: 0 where one is always chosen, 1
    where all are chosen alike. None where there is no choice.
    """
    if known < 2 or not choices:
        return None
    shares = [count / len(choices) for count in Counter(choices).values()]
    return math.fsum(share * math.log(1 / share) for share in shares) / math.log(known)


def top_share(choices: Sequence[Hashable]) -> float:
    """The share of what is chosen most. Raises ValueError without choices."""
    if not choices:
        raise ValueError("nothing was chosen")
    return max(Counter(choices).values()) / len(choices)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that such a share does not exceed (nearest rank). Raises ValueError."""
    if not values or not 0 < share <= 1:
        raise ValueError("a percentile is of one value at least, at a share above 0")
    return sorted(values)[math.ceil(share * len(values)) - 1]

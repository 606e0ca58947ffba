"""Agreement of judges beyond chance."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from podium_evaluation.statistics.intervals import CONFIDENCE
from podium_training.gate import Interval

VERDICTS = (True, False)


def cohens_kappa(
    pairs: Sequence[tuple[bool, bool]], confidence: float = CONFIDENCE
) -> Interval | None:
    """Cohen's kappa (1960) of two judges who each call an answer right or wrong.

    (p_o - p_e) / (1 - p_e), with p_o the share of equal verdicts and p_e the share that two judges
    with these rates share by chance. The interval has the standard error of Fleiss, Cohen and
    Everitt (1969). None without pairs, and where both judges only ever gave the same one verdict:
    kappa is then not defined.
    """
    return kappa_of(Counter(pairs), confidence)


def kappa_of(
    cells: Mapping[tuple[bool, bool], int], confidence: float = CONFIDENCE
) -> Interval | None:
    """Cohen's kappa of so many pairs of verdicts of each kind."""
    count = sum(cells.values())
    if not count:
        return None
    share = {(a, b): cells.get((a, b), 0) / count for a in VERDICTS for b in VERDICTS}
    first = {a: share[a, True] + share[a, False] for a in VERDICTS}
    second = {b: share[True, b] + share[False, b] for b in VERDICTS}
    chance = sum(first[each] * second[each] for each in VERDICTS)
    if chance == 1:
        return None
    kappa = (sum(share[each, each] for each in VERDICTS) - chance) / (1 - chance)
    equal = sum(
        share[each, each] * (1 - (first[each] + second[each]) * (1 - kappa)) ** 2
        for each in VERDICTS
    )
    unequal = (1 - kappa) ** 2 * sum(
        share[each, not each] * (second[each] + first[not each]) ** 2 for each in VERDICTS
    )
    variance = max(equal + unequal - (kappa - chance * (1 - kappa)) ** 2, 0.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    half = z * math.sqrt(variance / count) / (1 - chance)
    return Interval(kappa, max(-1.0, kappa - half), min(1.0, kappa + half))


def fleiss_kappa(items: Sequence[Sequence[bool]]) -> float | None:
    """Fleiss' kappa (1971) of several judges who each call every item right or wrong.

    (P - P_e) / (1 - P_e), with P the mean over items of the share of pairs of judges that agree,
    and P_e the sum of the squared shares of all verdicts. None without items or pairs of judges,
    and where only one verdict was ever given. Raises ValueError for items of unequal counts.
    """
    if not items or len(items[0]) < 2:
        return None
    judges = len(items[0])
    if any(len(item) != judges for item in items):
        raise ValueError("every judge judges every item")
    right = [sum(item) for item in items]
    pairs = judges * (judges - 1)
    equal = sum(r * (r - 1) + (judges - r) * (judges - r - 1) for r in right)
    share = sum(right) / (judges * len(items))
    chance = share**2 + (1 - share) ** 2
    if chance == 1:
        return None
    return (equal / (pairs * len(items)) - chance) / (1 - chance)

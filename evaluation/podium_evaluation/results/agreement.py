"""Agreement of a run's judges: of each with the trials' own checks, and of each two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.agreement import cohens_kappa
from podium_training.gate import Interval

# Of the trials' own verdicts; no tool has such a name.
OWN_CHECK = "the trials' checks"


@dataclass(frozen=True)
class JudgeAgreement:
    first: str
    second: str
    trials: int
    """Trials that both judged; an unjudged one agrees and disagrees with nothing."""
    equal: int
    """Count of these trials that both called right or both called wrong."""
    kappa: Interval | None
    """None where it is not defined."""


def agreements(
    trials: Sequence[TrialResult], verdicts: Sequence[pb.Verdict]
) -> list[JudgeAgreement]:
    """Every pair of judges, the trials' own checks among them; right is a score of 1."""
    judges: dict[str, dict[str, bool]] = {
        OWN_CHECK: {t.episode_id: t.score == 1 for t in trials if t.score is not None}
    }
    for verdict in verdicts:
        of_judge = judges.setdefault(verdict.judge, {})
        if verdict.HasField("score"):
            of_judge[verdict.episode_id] = verdict.score == 1
    return [_agreement(judges, first, second) for first, second in combinations(judges, 2)]


def _agreement(judges: Mapping[str, Mapping[str, bool]], first: str, second: str) -> JudgeAgreement:
    one, other = judges[first], judges[second]
    pairs = [(right, other[episode]) for episode, right in one.items() if episode in other]
    equal = sum(a == b for a, b in pairs)
    return JudgeAgreement(first, second, len(pairs), equal, cohens_kappa(pairs))

"""Statistics of judges on answers that people had labelled right or wrong.

A false positive is a wrong answer that a judge calls right. An answer without a verdict is in no
rate, and counted apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.statistics.agreement import kappa_of
from podium_evaluation.statistics.intervals import proportion_interval
from podium_kit.wire import timestamp_from_proto
from podium_training.gate import Interval


@dataclass(frozen=True)
class LabelAgreement:
    """Agreement of a judge with labels; None for what no answer says anything about."""

    judged: int
    unjudged: int
    accuracy: Interval | None
    kappa: Interval | None
    false_positives: Interval | None
    """Share of the answers labelled wrong that it called right."""
    false_negatives: Interval | None
    """Share of the answers labelled right that it called wrong."""


def label_agreement(judge: pb.CalibratedJudge) -> LabelAgreement:
    """Wilson's intervals of the shares; Cohen's kappa of judge and labels."""
    hit, miss = judge.right_called_right, judge.right_called_wrong
    passed, caught = judge.wrong_called_right, judge.wrong_called_wrong
    judged = hit + miss + passed + caught
    cells = {
        (True, True): hit,
        (True, False): miss,
        (False, True): passed,
        (False, False): caught,
    }
    return LabelAgreement(
        judged,
        judge.unjudged,
        _share(hit + caught, judged),
        kappa_of(cells),
        _share(passed, passed + caught),
        _share(miss, hit + miss),
    )


def pair_agreement(pair: pb.CalibratedPair) -> tuple[int, int, Interval | None]:
    """Answers that both judged, those of equal verdicts, and Cohen's kappa."""
    cells = {
        (True, True): pair.both_right,
        (True, False): pair.first_alone_right,
        (False, True): pair.second_alone_right,
        (False, False): pair.both_wrong,
    }
    return sum(cells.values()), pair.both_right + pair.both_wrong, kappa_of(cells)


@dataclass(frozen=True)
class KnownCalibration:
    """The newest calibration of a judge as it is asked now."""

    name: str
    date: str
    model: str
    tool_version: int
    agreement: LabelAgreement


def calibration_of(
    judge: str,
    calibrations: Iterable[pb.JudgeCalibration],
    prompt_digest: str,
    comparability: Mapping[str, str],
) -> KnownCalibration | None:
    """None for a judge that was never calibrated with this prompt, or as another tool version than
    the run states; calibrations come newest first."""
    for each in calibrations:
        if each.prompt_digest != prompt_digest:
            continue
        for found in each.judges:
            if found.judge == judge and _of_version(found, comparability):
                day = timestamp_from_proto(each.create_time).date().isoformat()
                agreement = label_agreement(found)
                return KnownCalibration(each.name, day, found.model, found.tool_version, agreement)
    return None


def stated_versions(comparability: Mapping[str, str]) -> dict[str, str]:
    """The versions of tools by the judges that a run's key names."""
    parts = comparability.get("judges", "").split(", ")
    named: Sequence[tuple[str, str, str]] = [part.rpartition(" version ") for part in parts]
    return {judge: version for judge, _, version in named if judge}


def _of_version(judge: pb.CalibratedJudge, comparability: Mapping[str, str]) -> bool:
    stated = stated_versions(comparability).get(judge.judge)
    return stated is None or stated == str(judge.tool_version)


def _share(part: int, whole: int) -> Interval | None:
    return proportion_interval(part, whole) if whole else None

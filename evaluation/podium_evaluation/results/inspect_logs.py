"""A run as logs of inspect_ai (version 2 of its format), which its viewer and data frames read.

An arm is a log, as a log is of one model. A trial is a sample: epochs are repeats, an unjudged
trial is a sample with an error and no score, and one that was not run is left out.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from google.protobuf import json_format

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.comparison import key_of
from podium_evaluation.results.trials import (
    JUDGED,
    UNJUDGED,
    Results,
    TrialResult,
    scores_by_item,
)
from podium_kit.wire import timestamp_from_proto

VERSION = 2
SCORER = "podium"
# The orchestrator that users get has no name of its own.
USERS_MODEL = "podium"


def write_logs(folder: Path, results: Results) -> list[Path]:
    """Writes a file for each arm, and returns them.

    Its name begins as inspect_ai's own do, or no listing of a folder shows it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began = f"{results.evaluation.create_time.ToDatetime():%Y-%m-%dT%H-%M-%S}"
    written = []
    for place, arm in enumerate(results.evaluation.arms):
        name = "".join(each if each.isalnum() else "-" for each in arm.name)
        path = folder / f"{began}_{name}_{results.evaluation.id}-{place}.json"
        log = arm_log(results.evaluation, arm, results.of(arm.name))
        path.write_text(json.dumps(log, ensure_ascii=False), encoding="utf-8")
        written.append(path)
    return written


def arm_log(
    evaluation: pb.Evaluation, arm: pb.EvaluationArm, trials: Sequence[TrialResult]
) -> dict[str, Any]:
    over = [trial for trial in trials if trial.state in (JUDGED, UNJUDGED)]
    ended = evaluation.HasField("end_time")
    items = list(dict.fromkeys(trial.item_id for trial in trials))
    return {
        "version": VERSION,
        "status": "success" if ended and not evaluation.reason else "cancelled",
        "eval": {
            "run_id": evaluation.id,
            "eval_id": f"{evaluation.id}/{arm.name}",
            "created": _time(evaluation.create_time.ToDatetime()),
            "task": evaluation.suite,
            "task_id": evaluation.suite_digest,
            "dataset": {"name": evaluation.suite, "samples": len(items), "sample_ids": items},
            "model": arm.model or USERS_MODEL,
            "config": {"epochs": evaluation.repeats},
            "metadata": {
                "arm": json_format.MessageToDict(arm, preserving_proto_field_name=True),
                "comparability_key": key_of(evaluation),
                "reason": evaluation.reason,
                "not_run": len(trials) - len(over),
            },
        },
        "plan": {"name": SCORER, "steps": [{"solver": "podium-episode"}]},
        "results": _results(trials, over),
        "stats": {
            "started_at": _time(evaluation.create_time.ToDatetime()),
            "completed_at": _time(timestamp_from_proto(evaluation.end_time)) if ended else "",
        },
        "samples": [_sample(trial) for trial in over],
    }


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}+00:00"


def _results(trials: Sequence[TrialResult], over: Sequence[TrialResult]) -> dict[str, Any]:
    scored = [trial for trial in over if trial.score is not None]
    means = [fmean(each) for each in scores_by_item(scored).values()]
    metrics: dict[str, Any] = {}
    if means:
        # Of items, as inspect_ai's own are of samples reduced over epochs.
        error = stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0
        metrics = {
            name: {"name": name, "value": value}
            for name, value in (("accuracy", fmean(means)), ("stderr", error))
        }
    score = {
        "name": SCORER,
        "scorer": SCORER,
        "reducer": "mean",
        "scored_samples": len(scored),
        "unscored_samples": len(over) - len(scored),
        "metrics": metrics,
    }
    return {"total_samples": len(trials), "completed_samples": len(scored), "scores": [score]}


def _sample(trial: TrialResult) -> dict[str, Any]:
    return {
        "id": trial.item_id,
        "epoch": trial.repeat + 1,
        "input": trial.question,
        "target": trial.target,
        "uuid": trial.episode_id,
        "total_time": trial.latency_s,
        "turn_count": trial.turns,
        "metadata": {
            name: value
            for name, value in trial.values().items()
            if name not in ("item_id", "question", "target", "repeat", "score", "explanation")
        },
        **_verdict(trial),
    }


def _verdict(trial: TrialResult) -> Mapping[str, Any]:
    if trial.score is None:
        why = trial.explanation or "no verdict"
        return {"error": {"message": why, "traceback": why, "traceback_ansi": why}}
    return {"scores": {SCORER: {"value": trial.score, "explanation": trial.explanation}}}

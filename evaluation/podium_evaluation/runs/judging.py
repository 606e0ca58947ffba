"""Judges the stored trials of a run again, by another judge, without playing them again."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from podium.episodes.v1 import episode_service_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_evaluation.runs.judges import (
    PROMPT_DIGEST,
    Judge,
    Question,
    ask,
    check_family,
    probe,
    writers,
)
from podium_evaluation.runs.names import path_of
from podium_evaluation.runs.preparing import check_priced
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.limits.concurrency import in_parallel
from podium_kit.verifiers.llm_judge import LlmJudge
from podium_kit.wire import money_to_proto
from podium_training.rollouts.rolling import retried

OVER = (pb.TRIAL_STATE_JUDGED, pb.TRIAL_STATE_UNJUDGED)


@dataclass(frozen=True)
class Judgeable:
    """A trial that ended with an answer, and what the judge compares it with."""

    place: int
    question: str
    answer: str
    verifier: LlmJudge
    models: frozenset[str]
    """Those that wrote in its episode."""


@dataclass(frozen=True)
class Planned:
    trials: Sequence[Judgeable]
    before: int
    """Trials that the judge has judged."""
    left_out: int
    """Trials without a reference, without an answer, or whose episode is gone."""


async def plan_judging(
    gateway: Gateway,
    evaluation_id: str,
    judge: Judge,
    tools: Mapping[str, tool_pb2.ToolSpec],
    *,
    own_family: bool,
) -> Planned:
    """The trials to judge. Raises UsageError, Rejected, Unreachable; nothing is spent."""
    path = path_of(evaluation_id)
    own = judge.models(tools)
    await check_priced(gateway, "the judge", [tools[judge.tool]])
    listed = await gateway.all(
        f"{path}/trials", pb.ListTrialsResponse, page_size=500, with_items="true"
    )
    known = await gateway.all(f"{path}/verdicts", pb.ListVerdictsResponse, page_size=500)
    before = {
        verdict.place
        for verdict in known.verdicts
        if verdict.judge == str(judge)
        and verdict.prompt_digest == PROMPT_DIGEST
        and verdict.HasField("score")
    }
    over = [trial for trial in listed.trials if trial.state in OVER]
    found = []
    for trial in over:
        if trial.place not in before:
            found.append(await _judgeable(gateway, trial, judge, tools))
    trials = [each for each in found if each is not None]
    if not own_family:
        check_family(judge, own, {model for each in trials for model in each.models})
    return Planned(trials, len(before), len(found) - len(trials))


async def judge_trials(
    gateway: Gateway,
    evaluation_id: str,
    judge: Judge,
    trials: Sequence[Judgeable],
    *,
    at_once: int,
    progress: Callable[[], None],
) -> None:
    """Asks the judge about each trial and stores its verdict; repeatable.

    Raises UserError where the judge does not answer a plain case, Rejected, Unreachable.
    """
    if not trials:
        return
    await probe(gateway, evaluation_id, judge)

    async def one(trial: Judgeable) -> None:
        asked = Question(str(trial.place), trial.question, trial.answer)
        found = await ask(gateway, evaluation_id, judge, trial.verifier, asked)
        verdict = pb.Verdict(
            place=trial.place,
            judge=str(judge),
            verifier=trial.verifier.name,
            verifier_version=trial.verifier.version,
            prompt_digest=PROMPT_DIGEST,
            score=found.score,
            explanation=found.explanation,
            call_id=found.call_id,
        )
        if found.cost is not None:
            verdict.cost.CopyFrom(money_to_proto(found.cost))
        request = pb.RecordVerdictsRequest(verdicts=[verdict])
        path = f"{path_of(evaluation_id)}/verdicts"
        await retried(gateway.post, path, request, pb.RecordVerdictsResponse)
        progress()

    await in_parallel([partial(one, trial) for trial in trials], at_once)


async def _judgeable(
    gateway: Gateway, trial: pb.Trial, judge: Judge, tools: Mapping[str, tool_pb2.ToolSpec]
) -> Judgeable | None:
    reference, rubric = reference_of(trial.item)
    if not reference:
        return None
    path = f"/v1/episodes/{segment(trial.episode_id)}/trajectory"
    try:
        reply = await retried(gateway.get, path, episode_service_pb2.GetTrajectoryResponse)
    except Rejected as error:
        if error.temporary:
            raise
        return None  # retention deleted it
    trajectory = reply.trajectory
    if not trajectory.answer:
        return None
    verifier = judge.verifier(reference, rubric)
    question = trial.item.question
    models = writers(trajectory, tools)
    return Judgeable(trial.place, question, trajectory.answer, verifier, frozenset(models))


def reference_of(item: pb.EvaluationItem) -> tuple[str, str]:
    """The answer that an item's check expects, and what else matters; "" where it states none."""
    parameters = json.loads(item.check.parameters_json or "{}")
    if item.check.verifier == "llm":
        return str(parameters.get("reference", "")), str(parameters.get("rubric", ""))
    expected = parameters.get("expected")
    if item.check.verifier not in ("exact", "numeric", "set", "contains") or expected is None:
        return "", ""
    listed = expected if isinstance(expected, list) else [expected]
    word = " or " if item.check.verifier == "exact" else ", "
    return word.join(map(str, listed)), ""

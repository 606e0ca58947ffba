import asyncio
from pathlib import Path

import pytest

from integration.podium_training.grpo.recorded import GROUP_SIZE, Records, make_records, produce
from integration.podium_training.grpo.test_runs import (
    GROUPS_PER_STEP,
    finish,
    make_run,
    make_topic,
    metrics_of,
    weights_of,
)
from podium.episodes.v1 import feedback_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka

pytestmark = pytest.mark.training

# The status of a run whose topic had no more for it.
TOO_FEW = 3
BY_FEEDBACK = {"groups": {"outcome": "feedback"}}


def scored(groups: int) -> Records:
    """Groups that no one checked, then a score for every member, each group's in turn."""
    records = make_records(groups)
    scores: Records = []
    for key, record in records:
        if not record.HasField("trajectory"):
            continue
        trajectory = record.trajectory
        feedback = feedback_pb2.Feedback(id="a", score=trajectory.outcomes[0].score)
        told = pb.FeedbackGiven(
            episode_id=trajectory.episode_id, group_id=key, tenant="acme", feedback=feedback
        )
        scores.append((key, pb.TrajectoryRecord(feedback_given=told)))
        del trajectory.outcomes[:]
        trajectory.unjudged_reason = "it has no check"
    return [*records, *scores]


async def test_users_scores_teach_as_checks_of_the_same_verdict_do(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    checked = await make_topic(kafka, "checked", make_records(2 * GROUPS_PER_STEP))
    liked = await make_topic(kafka, "liked", scored(2 * GROUPS_PER_STEP))
    await finish(make_run(tmp_path / "checks", kafka, checked, steps=2))
    await finish(make_run(tmp_path / "feedback", kafka, liked, steps=2, **BY_FEEDBACK))
    last = metrics_of(tmp_path / "feedback")[-1]
    assert last["rows"] == GROUPS_PER_STEP * GROUP_SIZE
    assert weights_of(tmp_path / "feedback", 2) == weights_of(tmp_path / "checks", 2)


async def test_a_run_that_goes_on_knows_who_waits_for_a_score(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    records = scored(2 * GROUPS_PER_STEP)
    # The second step's scores come when the first run is over.
    late = [
        each
        for each in records
        if each[1].HasField("feedback_given") and int(each[0].removeprefix("g")) >= GROUPS_PER_STEP
    ]
    early = [each for each in records if each not in late]
    topic = await make_topic(kafka, "late", early)
    folder = tmp_path / "run"
    run = make_run(folder, kafka, topic, steps=2, **BY_FEEDBACK)
    run.start()
    assert await run.wait() == TOO_FEW, run.log_tail()
    assert len(metrics_of(folder)) == 1
    await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, late)
    await finish(run)
    assert [line["step"] for line in metrics_of(folder)] == [1, 2]

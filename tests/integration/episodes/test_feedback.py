import asyncio
import json

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.test_approvals import asked
from integration.episodes.test_webhooks import delivered, hook, webhooks
from integration.episodes.topic import read_topic
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import webhook_service_pb2


async def ended(platform: EpisodesPlatform) -> str:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    async with platform.client() as client:
        return (await finished(client, (await start(client)).id)).id


async def test_feedback_is_shown_with_the_episode_and_follows_it_on_the_stream(
    platform: EpisodesPlatform,
) -> None:
    episode_id = await ended(platform)
    said = pb.GiveFeedbackRequest(
        episode_id=episode_id, score=0.5, label="half", comment="The second city is missing."
    )
    async with platform.client() as client:
        given = (await client.GiveFeedback(said)).feedback
        again = (await client.GiveFeedback(said)).feedback
        other = (
            await client.GiveFeedback(
                pb.GiveFeedbackRequest(episode_id=episode_id, id="survey-7", score=0)
            )
        ).feedback
        episode = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
        trajectory = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    assert again == given
    assert (given.score, given.label) == (0.5, "half")
    assert given.created_by
    assert list(episode.episode.feedback) == list(trajectory.feedback) == [given, other]
    records = await read_topic(platform.kafka.bootstrap_servers, platform.topic, 4, platform.tenant)
    kinds = [record.WhichOneof("record") for record in records]
    assert kinds == ["trajectory", "group_closed", "feedback_given", "feedback_given"]
    told = records[2].feedback_given
    assert (told.episode_id, told.group_id) == (episode_id, episode_id)
    assert [each.feedback_given.feedback for each in records[2:]] == [given, other]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "score"),
        ({"score": 1.5}, "score"),
        ({"score": float("nan")}, "score"),
        ({"label": "x" * 65}, "label"),
        ({"comment": "x" * 2_001}, "comment"),
        ({"id": "x" * 65, "score": 1}, "id"),
    ],
)
async def test_feedback_that_cannot_be_taken_names_its_field(
    platform: EpisodesPlatform, fields: dict[str, object], param: str
) -> None:
    episode_id = await ended(platform)
    request = pb.GiveFeedbackRequest(episode_id=episode_id, **fields)  # type: ignore[arg-type]
    async with platform.client() as client:
        with pytest.raises(grpc.aio.AioRpcError, match=param) as caught:
            await client.GiveFeedback(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_other_words_under_an_id_are_rejected_and_those_before_stay(
    platform: EpisodesPlatform,
) -> None:
    episode_id = await ended(platform)
    async with platform.client() as client:
        first = pb.GiveFeedbackRequest(episode_id=episode_id, id="a", score=1)
        await client.GiveFeedback(first)
        with pytest.raises(grpc.aio.AioRpcError, match="use a new id") as caught:
            await client.GiveFeedback(
                pb.GiveFeedbackRequest(episode_id=episode_id, id="a", score=0)
            )
        found = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert [each.score for each in found.episode.feedback] == [1]


async def test_an_episode_takes_fifty_however_many_come_at_once(
    platform: EpisodesPlatform,
) -> None:
    episode_id = await ended(platform)
    requests = [
        pb.GiveFeedbackRequest(episode_id=episode_id, id=str(number), score=1)
        for number in range(60)
    ]
    async with platform.client() as client:
        replies = await asyncio.gather(
            *(client.GiveFeedback(each) for each in requests), return_exceptions=True
        )
        found = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
    rejected = [each for each in replies if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code() for each in rejected} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(rejected) == 10
    assert len(found.episode.feedback) == 50


async def test_an_episode_that_runs_takes_none(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with platform.client() as client:
        episode = await asked(client)
        with pytest.raises(grpc.aio.AioRpcError, match="still runs") as caught:
            await client.GiveFeedback(pb.GiveFeedbackRequest(episode_id=episode.id, score=1))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_feedback_is_told_to_webhooks_without_its_words(platform: EpisodesPlatform) -> None:
    url = f"https://example.org/feedback/{platform.tenant}"
    wanted = [webhook_service_pb2.WEBHOOK_EVENT_TYPE_FEEDBACK_GIVEN]
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url, event_types=wanted))
        episode_id = await ended(platform)
        async with platform.client() as client:
            given = await client.GiveFeedback(
                pb.GiveFeedbackRequest(episode_id=episode_id, score=1, comment="a secret")
            )
        (body,) = await delivered(platform, url)
    assert body["type"] == "feedback.given"
    assert body["data"] == {
        "episode_id": episode_id,
        "feedback_id": given.feedback.id,
        "score": 1.0,
    }
    assert "secret" not in json.dumps(body)

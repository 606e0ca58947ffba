import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from embedded_servers import Database
from episodes.execution.outcomes import Approval
from episodes.keys import workflow_id
from episodes.workflows.codec import data_converter
from episodes.workflows.episode_workflow import EpisodeWorkflow
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    run_platform,
    start,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.crypto.key_file import new_key_line
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal

TASK, ANSWER = "pay the invoice of Ouagadougou", "paid 417 francs"
REASON, FAULT = "the invoice is right", "no model speaks Zarma"
WORDS = {TASK, ANSWER, REASON, FAULT, "boss", "answered", "failed"}


@pytest_asyncio.fixture
async def encrypted(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[EpisodesPlatform]:
    url = await database("episodes")
    async with run_platform(url, temporal, kafka, tmp_path, with_keys(tmp_path)) as running:
        yield running


def with_keys(folder: Path) -> dict[str, str]:
    file = folder / "payload-keys"
    if not file.exists():
        file.write_text(new_key_line("first"))
    return {"temporal__payload_keys_file": str(file)}


def pays(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer(ANSWER))


async def asked(platform: EpisodesPlatform) -> str:
    pays(platform)
    async with platform.client() as client:
        episode = await start(client, TASK)
        watch = client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id))
        async for response in watch:
            if response.event.HasField("approval_requested"):
                return episode.id
    raise AssertionError("nobody was asked")


async def approved(platform: EpisodesPlatform, episode_id: str) -> episode_pb2.Episode:
    request = pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=True, reason=REASON)
    async with platform.client(subject="boss") as boss:
        await boss.ApproveToolCall(request)
        return await finished(boss, episode_id)


async def failed(platform: EpisodesPlatform) -> str:
    episode_id = await asked(platform)
    platform.neighbours.orchestrator.error = (grpc.StatusCode.FAILED_PRECONDITION, FAULT)
    episode = await approved(platform, episode_id)
    assert FAULT in episode.failure.message
    return episode.id


async def words_in_histories(temporal: EmbeddedTemporal, *episode_ids: str) -> set[str]:
    client, raw = await Client.connect(temporal.target), b""
    for episode_id in episode_ids:
        handle = client.get_workflow_handle(workflow_id(episode_id))
        async for event in handle.fetch_history_events():
            raw += event.SerializeToString()
    assert raw
    return {word for word in WORDS if word.encode() in raw}


async def episodes_of(platform: EpisodesPlatform) -> tuple[str, str]:
    episode_id = await asked(platform)
    assert (await approved(platform, episode_id)).answer == ANSWER
    return episode_id, await failed(platform)


async def test_temporal_reads_neither_words_nor_people(
    platform: EpisodesPlatform, encrypted: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    # What it reads without keys, so that the search below is one that finds.
    found = await words_in_histories(temporal, *await episodes_of(platform))
    assert found == {REASON, FAULT, "boss", "answered", "failed"}
    assert await words_in_histories(temporal, *await episodes_of(encrypted)) == set()


async def test_a_history_replays_with_the_file_of_keys(
    encrypted: EpisodesPlatform, temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    episode_id = await asked(encrypted)
    await approved(encrypted, episode_id)
    client = await Client.connect(temporal.target)
    history = await client.get_workflow_handle(workflow_id(episode_id)).fetch_history()
    for keys, replays in ((tmp_path / "payload-keys", True), (None, False)):
        replayer = Replayer(
            workflows=[EpisodeWorkflow],
            workflow_runner=UnsandboxedWorkflowRunner(),
            data_converter=data_converter(keys),
            # Temporal's default hashes the code of every module that the tests have imported.
            build_id="tests",
        )
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        assert (result.replay_failure is None) == replays


async def test_an_approval_that_is_written_past_podium_is_rejected(
    encrypted: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await asked(encrypted)
    client = await Client.connect(temporal.target)
    handle = client.get_workflow_handle_for(EpisodeWorkflow.run, workflow_id(episode_id))
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await handle.execute_update(EpisodeWorkflow.decide, Approval(1, 0, True, "mallory"))
    while True:
        try:
            ended = await approved(encrypted, episode_id)
        except grpc.aio.AioRpcError as error:
            # The forged one failed a task of the workflow, which Temporal takes a moment to retry.
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            await asyncio.sleep(0.1)
        else:
            break
    assert ended.answer == ANSWER


async def test_a_signal_that_is_written_past_podium_is_dropped(
    encrypted: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await asked(encrypted)
    client = await Client.connect(temporal.target)
    handle = client.get_workflow_handle_for(EpisodeWorkflow.run, workflow_id(episode_id))
    while True:
        # The workflow starts a moment after the request for approval is stored.
        try:
            await handle.signal(EpisodeWorkflow.caller_answered, 1)
        except RPCError:
            await asyncio.sleep(0.05)
            continue
        break
    await handle.signal("unknown", "words")
    assert (await approved(encrypted, episode_id)).answer == ANSWER
    failures = [
        event
        async for event in handle.fetch_history_events()
        if event.HasField("workflow_task_failed_event_attributes")
    ]
    assert not failures


async def test_an_episode_waits_for_a_key_that_is_gone(
    encrypted: EpisodesPlatform, tmp_path: Path
) -> None:
    episode_id = await asked(encrypted)
    file, log = tmp_path / "payload-keys", tmp_path / "episodes.worker.log"
    first, second = file.read_text(), new_key_line("second")
    # Without what the worker remembers, it needs the history.
    await encrypted.worker.terminate()
    _replace(file, second)
    encrypted.worker.start()
    approval = asyncio.create_task(approved(encrypted, episode_id))
    while f"the key first, which {file}" not in log.read_text():
        await asyncio.sleep(0.1)
    assert not approval.done()
    _replace(file, first + second)
    assert (await approval).answer == ANSWER


def _replace(file: Path, keys: str) -> None:
    """At once, as Kubernetes replaces a Secret's file: anyone who reads it never finds half."""
    new = file.with_suffix(".new")
    new.write_text(keys)
    new.replace(file)

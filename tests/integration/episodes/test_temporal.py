import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from certificates import Authority
from embedded_servers import Database
from episodes.execution.outcomes import Approval
from episodes.keys import workflow_id
from episodes.workflows.codec import data_converter
from episodes.workflows.connection import (
    TemporalConnection,
    TemporalUnreachable,
    check_temporal,
    connect_temporal,
)
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.settings import TemporalSettings
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    run_platform,
    start,
    until,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.crypto.key_file import new_key_line
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.settings import TlsFiles
from servers.tls_terminator import TlsTerminator

TASK, ANSWER = "pay the invoice of Ouagadougou", "paid 417 francs"
REASON, FAULT = "the invoice is right", "no model speaks Zarma"
WORDS = {TASK, ANSWER, REASON, FAULT, "boss", "answered", "failed"}


@pytest_asyncio.fixture
async def encrypted(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[Platform]:
    url = await database("episodes")
    async with run_platform(url, temporal, kafka, tmp_path, with_keys(tmp_path)) as running:
        yield running


def with_keys(folder: Path) -> dict[str, str]:
    file = folder / "payload-keys"
    if not file.exists():
        file.write_text(new_key_line("first"))
    return {"temporal__payload_keys_file": str(file)}


def pays(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer(ANSWER))


async def asked(platform: Platform) -> str:
    pays(platform)
    episode = await start(platform.ada, TASK)
    watch = platform.ada.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id))
    async for response in watch:
        if response.event.HasField("approval_requested"):
            return episode.id
    raise AssertionError("nobody was asked")


async def approved(platform: Platform, episode_id: str) -> episode_pb2.Episode:
    request = pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=True, reason=REASON)
    async with platform.client(subject="boss") as boss:
        await boss.ApproveToolCall(request)
        return await finished(boss, episode_id)


async def failed(platform: Platform) -> str:
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


async def episodes_of(platform: Platform) -> tuple[str, str]:
    episode_id = await asked(platform)
    assert (await approved(platform, episode_id)).answer == ANSWER
    return episode_id, await failed(platform)


async def test_temporal_reads_neither_words_nor_people(
    platform: Platform, encrypted: Platform, temporal: EmbeddedTemporal
) -> None:
    # What it reads without keys, so that the search below is one that finds.
    found = await words_in_histories(temporal, *await episodes_of(platform))
    assert found == {REASON, FAULT, "boss", "answered", "failed"}
    assert await words_in_histories(temporal, *await episodes_of(encrypted)) == set()


async def test_a_history_replays_with_the_file_of_keys(
    encrypted: Platform, temporal: EmbeddedTemporal, tmp_path: Path
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
    encrypted: Platform, temporal: EmbeddedTemporal
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
    encrypted: Platform, temporal: EmbeddedTemporal
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


async def test_an_episode_waits_for_a_key_that_is_gone(encrypted: Platform, tmp_path: Path) -> None:
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


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest_asyncio.fixture
async def terminator(
    authority: Authority, temporal: EmbeddedTemporal
) -> AsyncIterator[TlsTerminator]:
    files = authority.issue("frontend", ("127.0.0.1", "temporal.example"))
    async with TlsTerminator(files, temporal.port, ["h2"]).listening() as terminator:
        yield terminator


@pytest.fixture
def frontend(terminator: TlsTerminator) -> str:
    return f"127.0.0.1:{terminator.port}"


@activity.defn
async def echo(words: str) -> str:
    return words


def settings_of(client: TlsFiles, **more: object) -> TemporalSettings:
    return TemporalSettings(tls=True, **{**client.model_dump(), **more})


async def test_an_episode_runs_with_server_and_worker_behind_mutual_tls(
    authority: Authority,
    frontend: str,
    database: Database,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> None:
    client = authority.issue("podium")
    settings = {
        "temporal_target": frontend,
        "temporal__tls": "true",
        **{f"temporal__{name}": str(path) for name, path in client.model_dump().items()},
    }
    async with (
        run_platform(await database("episodes"), temporal, kafka, tmp_path, settings) as platform,
        platform.client() as episodes,
    ):
        episode = await finished(episodes, (await start(episodes)).id)
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED


async def test_the_name_in_the_certificate_may_be_given(
    authority: Authority, frontend: str
) -> None:
    named = settings_of(authority.issue("client"), server_name="temporal.example")
    await check_temporal(await connect_temporal(frontend, "default", named, attempts_max=1))


async def test_a_handshake_that_fails_says_why(
    authority: Authority, frontend: str, tmp_path: Path
) -> None:
    client, theirs = authority.issue("client"), Authority(tmp_path, "theirs").issue("client")
    mistakes = [
        (settings_of(client, authority=theirs.authority), "UnknownIssuer.*TEMPORAL__AUTHORITY"),
        (settings_of(client, server_name="elsewhere.example"), "elsewhere.*_SERVER_NAME"),
        (settings_of(client, certificate=None, private_key=None), "TEMPORAL__CERTIFICATE"),
        (settings_of(theirs, authority=client.authority), "TEMPORAL__CERTIFICATE"),
        (TemporalSettings(), "TEMPORAL__TLS"),
    ]
    for settings, said in mistakes:
        with pytest.raises(TemporalUnreachable, match=said):
            await connect_temporal(frontend, "default", settings, attempts_max=1)
    with pytest.raises(TemporalUnreachable, match="start it, or correct TEMPORAL_TARGET"):
        await connect_temporal(f"127.0.0.1:{free_port()}", "default", attempts_max=1)


async def test_a_renewed_certificate_is_shown_without_a_restart(
    authority: Authority, frontend: str, terminator: TlsTerminator
) -> None:
    files, renewed = (authority.issue(name) for name in ("before", "after"))
    temporal = await TemporalConnection.open(frontend, "default", settings_of(files))
    first, followed = temporal.client, list[Client]()
    temporal.follow(followed.append)
    await temporal.renew()
    assert temporal.client is first
    renewed.certificate.replace(files.certificate)
    # A key of another certificate: half of a renewal changes nothing.
    with pytest.raises(TemporalUnreachable):
        await temporal.renew()
    assert (temporal.client, followed) == (first, [])
    renewed.private_key.replace(files.private_key)
    await temporal.renew()
    assert followed == [temporal.client] != [first]
    await check_temporal(temporal.client)
    assert terminator.seen[-1] == "after"


async def test_a_worker_keeps_running_under_the_renewed_certificate(
    authority: Authority, frontend: str, terminator: TlsTerminator
) -> None:
    files, renewed = (authority.issue(name) for name in ("old", "new"))
    temporal = await TemporalConnection.open(frontend, "default", settings_of(files))
    async with Worker(
        temporal.client,
        task_queue="renewal",
        # Temporal's default hashes the code of every module that the tests have imported.
        build_id="tests",
        activities=[echo],
    ) as worker:
        temporal.follow(partial(setattr, worker, "client"))
        renewed.certificate.replace(files.certificate)
        renewed.private_key.replace(files.private_key)
        await temporal.renew()
        assert worker.client is temporal.client
        terminator.drop_connections()
        terminator.seen.clear()
        answer = await temporal.client.execute_activity(
            echo,
            "still here",
            id=uuid.uuid4().hex,
            task_queue="renewal",
            start_to_close_timeout=timedelta(seconds=30),
        )
    assert answer == "still here"
    assert set(terminator.seen) == {"new"}


async def test_a_connection_that_stalls_is_replaced(
    authority: Authority, frontend: str, terminator: TlsTerminator
) -> None:
    settings = settings_of(authority.issue("client"))
    temporal = await TemporalConnection.open(frontend, "default", settings)
    first, followed = temporal.client, list[Client]()
    temporal.follow(followed.append)
    terminator.stall_connections()
    await temporal.renew()
    assert followed == [temporal.client] != [first]
    await check_temporal(temporal.client)
    await temporal.renew()
    assert followed == [temporal.client]


async def test_a_frontend_that_is_away_keeps_its_client(
    authority: Authority, frontend: str, terminator: TlsTerminator
) -> None:
    temporal = await TemporalConnection.open(
        frontend, "default", settings_of(authority.issue("client"))
    )
    first, terminator.upstream_port = temporal.client, free_port()
    terminator.drop_connections()
    with pytest.raises(TemporalUnreachable):
        await temporal.renew()
    assert temporal.client is first


async def test_a_terminated_workflow_ends_its_episode(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await _with_a_workflow(platform)
    platform.neighbours.orchestrator.delay_s = 600.0
    await _approve(platform, episode_id)
    await until(lambda: len(platform.neighbours.orchestrator.requests) == 2)
    handle = (await Client.connect(temporal.target)).get_workflow_handle(workflow_id(episode_id))
    await handle.terminate("an operator's mistake")
    await _assert_ended(platform, episode_id, "terminated")


async def test_a_workflow_that_temporal_lost_ends_its_episode(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await _with_a_workflow(platform)
    platform.neighbours.adapters.delay_s = 600.0
    await _approve(platform, episode_id)
    await until(lambda: bool(platform.neighbours.adapters.requests))
    client = await Client.connect(temporal.target)
    execution = WorkflowExecution(workflow_id=workflow_id(episode_id))
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace="default", workflow_execution=execution)
    )
    await _assert_ended(platform, episode_id, "gone|terminated")


async def _with_a_workflow(platform: Platform) -> str:
    neighbours = platform.neighbours
    neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with platform.client() as client, asyncio.timeout(30):
        episode = await start(client)
        request = pb.WatchEpisodeRequest(episode_id=episode.id)
        async for response in client.WatchEpisode(request):
            if response.event.HasField("approval_requested"):
                break
    return episode.id


async def _approve(platform: Platform, episode_id: str) -> None:
    async with platform.client(subject="boss") as boss:
        await boss.ApproveToolCall(
            pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=True)
        )


async def _assert_ended(platform: Platform, episode_id: str, why: str) -> None:
    async with platform.client() as client, asyncio.timeout(60):
        ended = await finished(client, episode_id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
        running = await client.ListEpisodes(
            pb.ListEpisodesRequest(
                filter=pb.EpisodeFilter(
                    states=[episode_pb2.EPISODE_STATE_PENDING, episode_pb2.EPISODE_STATE_RUNNING]
                )
            )
        )
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert any(word in ended.failure.message for word in why.split("|")), ended.failure
    assert reply.trajectory.episode_id == episode_id
    assert not running.episodes
    ledger = platform.neighbours.ledger
    assert not set(ledger.holds) - set(ledger.captured) - ledger.released

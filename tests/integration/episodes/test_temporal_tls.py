import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from certificates import Authority
from embedded_servers import Database
from episodes.workflows.connection import (
    TemporalConnection,
    TemporalUnreachable,
    check_temporal,
    connect_temporal,
)
from episodes.workflows.settings import TemporalSettings
from integration.episodes.platform_under_test import finished, run_platform, start
from podium.episodes.v1 import episode_pb2
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.settings import TlsFiles
from tls_terminator import TlsTerminator


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

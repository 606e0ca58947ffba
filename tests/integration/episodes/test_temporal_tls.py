"""Real handshakes with Temporal: server and worker over mutual TLS, and what a mistake says."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from certificates import Authority
from embedded import EmbeddedKafka, EmbeddedTemporal, free_port
from episodes.temporal import TemporalUnreachable, check_temporal, connect_temporal
from episodes.temporal_settings import TemporalSettings
from integration.episodes.platform_under_test import finished, run_platform, start
from podium.episodes.v1 import episode_pb2
from rpckit.settings import TlsFiles
from tls_terminator import TlsTerminator


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest_asyncio.fixture
async def frontend(authority: Authority, temporal: EmbeddedTemporal) -> AsyncIterator[str]:
    """host:port of the frontend, where clients must show a certificate."""
    files = authority.issue("frontend", ("127.0.0.1", "temporal.example"))
    async with TlsTerminator(files, temporal.port, ["h2"]).listening() as terminator:
        yield f"127.0.0.1:{terminator.port}"


def settings_of(client: TlsFiles, **more: object) -> TemporalSettings:
    return TemporalSettings(tls=True, **{**client.model_dump(), **more})


async def test_an_episode_runs_with_server_and_worker_behind_mutual_tls(
    authority: Authority,
    frontend: str,
    database: Callable[[], Awaitable[str]],
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
        run_platform(await database(), temporal, kafka, tmp_path, settings) as platform,
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

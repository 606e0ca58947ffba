import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import asyncpg
import grpc
import pytest_asyncio

from embedded_servers import Database
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    new_id,
    run_platform,
)
from integration.episodes.test_attachments import direct_calls, readers, starting
from media_files import attached, make_pdf
from podium.common.v1 import attachment_pb2, money_pb2
from podium.episodes.v1 import direct_call_service_pb2 as direct_pb
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.status import domain_error_from

FILES_MAX, BYTES_MAX = 6, 10_000
STARTS = 20
BUDGET = money_pb2.Money(currency_code="USD", amount="0.5")
USE = "SELECT files, bytes FROM attachment_use WHERE tenant = $1"
COUNTED = "SELECT count(*), coalesce(sum(octet_length(data)), 0) FROM attachments WHERE tenant = $1"


@pytest_asyncio.fixture
async def limited(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[EpisodesPlatform]:
    settings = {"files_per_tenant": str(FILES_MAX), "file_bytes_per_tenant": str(BYTES_MAX)}
    url = await database("episodes")
    async with run_platform(url, temporal, kafka, tmp_path, settings) as platform:
        platform.neighbours.registry.toolset = readers()
        yield platform


def pdf(number: int, size: int = 100) -> attachment_pb2.AttachedFile:
    words = f"{number} ".ljust(size - len(make_pdf("")), ".")
    return attached(f"[PDF {number}]", make_pdf(words), "application/pdf")


async def rejection(call: Awaitable[object]) -> ResourceExhausted | None:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        found = domain_error_from(error)
        assert isinstance(found, ResourceExhausted), error
        assert found.reason == "FILES_FULL"
        # A client that tries again by itself would do so in vain.
        assert found.metadata["retryable"] == "false"
        return found
    return None


async def use(url: str, tenant: str) -> tuple[int, int]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        [there] = await connection.fetch(COUNTED, tenant)
        counted = await connection.fetchrow(USE, tenant) or (0, 0)
        assert tuple(counted) == tuple(there)
        return there[0], there[1]
    finally:
        await connection.close()


async def execute(url: str, statement: str, *values: object) -> None:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def test_twenty_starts_at_once_keep_exactly_what_may_be_kept(
    limited: EpisodesPlatform,
) -> None:
    requests = [starting(pdf(number)) for number in range(STARTS)]
    async with limited.client() as client:
        answers = await asyncio.gather(*(rejection(client.StartEpisode(one)) for one in requests))
        kept = [
            request for request, rejected in zip(requests, answers, strict=True) if rejected is None
        ]
        assert len(kept) == FILES_MAX
        assert await use(limited.database_url, "acme") == (FILES_MAX, FILES_MAX * 100)
        # What was rejected left nothing; the retry of what was not finds its episode.
        listed = await client.ListEpisodes(pb.ListEpisodesRequest(page_size=500))
        assert {each.id for each in listed.episodes} == {each.episode_id for each in kept}
        assert await rejection(client.StartEpisode(kept[0])) is None
        # Without files nothing is full, and the next tenant has a quota of its own.
        assert await rejection(client.StartEpisode(starting(task="what is 6 x 7?"))) is None
        for each in kept:
            await finished(client, each.episode_id)
    async with limited.client("globex") as other:
        assert await rejection(other.StartEpisode(starting(pdf(1)))) is None
    assert await use(limited.database_url, "globex") == (1, 100)


async def test_a_rejection_names_quota_use_and_fix_before_anything_is_made(
    limited: EpisodesPlatform,
) -> None:
    async with limited.client() as client:
        assert await rejection(client.StartEpisode(starting(pdf(1, 6_000)))) is None
        request = starting(pdf(2, 5_000))
        request.spec.budget.CopyFrom(BUDGET)
        error = await rejection(client.StartEpisode(request))
        # A copy of what is kept is kept once more, with its new owner.
        again = await rejection(client.StartEpisode(starting(pdf(1, 6_000), data=[])))
        # One content twice is one file.
        twice = [attached("[PDF 1]", pdf(3).data, "application/pdf"), pdf(3)]
        assert await rejection(client.StartEpisode(starting(*twice))) is None
    assert error and again
    assert "keep 2 files of at most 6, and 11,000 bytes of at most 10,000" in error.message
    assert {name: error.metadata[name] for name in ("size_bytes", "size_bytes_max")} == {
        "size_bytes": "11000",
        "size_bytes_max": str(BYTES_MAX),
    }
    assert "send fewer or smaller ones" in error.message
    assert "EPISODES_FILE_BYTES_PER_TENANT" in error.message
    assert not limited.neighbours.ledger.budgets
    assert await use(limited.database_url, "acme") == (2, 6_100)


async def test_a_tenants_own_quota_stands_in_place_of_the_one_for_all(
    limited: EpisodesPlatform,
) -> None:
    async with limited.client() as client:
        request = starting(pdf(1))
        request.file_quota.files = 0
        error = await rejection(client.StartEpisode(request))
        request.file_quota.files = 1
        assert await rejection(client.StartEpisode(request)) is None
        # More than others may, too; what is left out is as for all.
        larger = starting(pdf(2, BYTES_MAX))
        larger.file_quota.size_bytes = 2 * BYTES_MAX
        assert await rejection(client.StartEpisode(larger)) is None
        assert await rejection(client.StartEpisode(starting(pdf(3)))) is not None
    assert error and "1 files of at most 0" in error.message and "podium limits" in error.message


async def test_a_direct_call_is_no_way_around(limited: EpisodesPlatform) -> None:
    def asking(file: attachment_pb2.AttachedFile) -> direct_pb.StartDirectCallRequest:
        spec = direct_pb.DirectCallSpec(
            tool_name="expert",
            model_alias="scholar",
            messages=[orchestrator_pb.ConversationMessage(role="user", content="Read")],
            attachments=[file.attachment],
            budget=BUDGET,
        )
        return direct_pb.StartDirectCallRequest(
            call_id=new_id(), spec=spec, attachment_data=[file.data]
        )

    async with direct_calls(limited) as stub:
        assert await rejection(stub.StartDirectCall(asking(pdf(1, 6_000)))) is None
        budgets = list(limited.neighbours.ledger.budgets)
        assert await rejection(stub.StartDirectCall(asking(pdf(2, 5_000)))) is not None
    assert limited.neighbours.ledger.budgets == budgets


async def test_what_is_deleted_makes_room(limited: EpisodesPlatform) -> None:
    requests = [starting(pdf(number)) for number in range(FILES_MAX)]
    async with limited.client() as client:
        for each in requests:
            await client.StartEpisode(each)
            await finished(client, each.episode_id)
        assert await rejection(client.StartEpisode(starting(pdf(99)))) is not None
        gone = [each.episode_id for each in requests[:2]]
        delete = "DELETE FROM attachments WHERE owner_id = ANY($1::uuid[])"
        await execute(limited.database_url, delete, gone)
        assert await use(limited.database_url, "acme") == (FILES_MAX - 2, (FILES_MAX - 2) * 100)
        answers = [await rejection(client.StartEpisode(starting(pdf(n)))) for n in range(50, 53)]
    assert [each is None for each in answers] == [True, True, False]
    await execute(limited.database_url, "DELETE FROM attachments")
    assert await use(limited.database_url, "acme") == (0, 0)

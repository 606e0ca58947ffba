import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from callers import client_channel, make_identity
from integration.episodes.neighbours import answer, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.topic import read_topic
from podium.episodes.v1 import dead_letter_service_pb2 as pb
from podium.episodes.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.episodes.v1.dead_letter_service_pb2_grpc import DeadLetterServiceAsyncStub

LIST = pb.ListDeadLettersRequest()
ALL_TENANTS = pb.ListDeadLettersRequest(all_tenants=True, page_size=500)


@asynccontextmanager
async def dead_letters(
    platform: EpisodesPlatform, *scopes: Scope, tenant: str = ""
) -> AsyncIterator["DeadLetterServiceAsyncStub"]:
    identity = make_identity(
        tenant or platform.tenant, "ada", scopes=scopes or (Scope.TENANT_ADMIN,)
    )
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield DeadLetterServiceStub(channel)


async def test_a_record_no_trainer_could_use_is_listed_and_stays_aside(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    async with dead_letters(platform) as letters:
        await _one_kept_aside(letters)
        (letter,) = (await letters.ListDeadLetters(LIST)).dead_letters
        assert (letter.tenant, letter.episode_id) == (platform.tenant, episode.id)
        assert "logprob" in letter.reason
        again = await letters.RedriveDeadLetters(
            pb.RedriveDeadLettersRequest(record_ids=[letter.record_id])
        )
        assert again.count == 1
        await _one_kept_aside(letters)


async def test_a_redriven_record_reaches_the_stream(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    async with platform.client() as client:
        await finished(client, (await start(client)).id)
    servers = platform.kafka.bootstrap_servers
    await read_topic(servers, platform.topic, 2, platform.tenant)
    await _dead_letter(platform, "the broker rejects it: MessageSizeTooLarge")
    async with dead_letters(platform) as letters:
        found = await letters.ListDeadLetters(pb.ListDeadLettersRequest(page_size=1))
        rest = await letters.ListDeadLetters(
            pb.ListDeadLettersRequest(page_token=found.next_page_token)
        )
        assert len(found.dead_letters) == len(rest.dead_letters) == 1
        assert (await letters.RedriveDeadLetters(pb.RedriveDeadLettersRequest())).count == 2
    records = await read_topic(servers, platform.topic, 4, platform.tenant)
    assert len(records) == 4


async def test_only_admins_redrive_and_only_what_is_theirs(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    async with platform.client() as client:
        await finished(client, (await start(client)).id)
    async with dead_letters(platform) as letters:
        await _one_kept_aside(letters)
        (letter,) = (await letters.ListDeadLetters(LIST)).dead_letters
        named = pb.RedriveDeadLettersRequest(record_ids=[letter.record_id])
        for request in (ALL_TENANTS, pb.RedriveDeadLettersRequest(all_tenants=True)):
            await _rejected(letters, request, grpc.StatusCode.PERMISSION_DENIED)
    async with dead_letters(platform, tenant="stranger") as letters:
        assert not (await letters.ListDeadLetters(LIST)).dead_letters
        await _rejected(letters, named, grpc.StatusCode.NOT_FOUND)
    async with dead_letters(platform, Scope.TRAJECTORIES_READ) as letters:
        await _rejected(letters, named, grpc.StatusCode.PERMISSION_DENIED)
    async with dead_letters(platform, Scope.PLATFORM_ADMIN, tenant="platform") as letters:
        everybody = (await letters.ListDeadLetters(ALL_TENANTS)).dead_letters
        assert letter.record_id in {each.record_id for each in everybody}


async def _one_kept_aside(letters: "DeadLetterServiceAsyncStub") -> None:
    async with asyncio.timeout(60):
        while len((await letters.ListDeadLetters(LIST)).dead_letters) != 1:
            await asyncio.sleep(0.1)


async def _rejected(
    letters: "DeadLetterServiceAsyncStub",
    request: pb.ListDeadLettersRequest | pb.RedriveDeadLettersRequest,
    code: grpc.StatusCode,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        if isinstance(request, pb.ListDeadLettersRequest):
            await letters.ListDeadLetters(request)
        else:
            await letters.RedriveDeadLetters(request)
    assert rejected.value.code() is code


async def _dead_letter(platform: EpisodesPlatform, reason: str) -> None:
    engine = create_async_engine(platform.database_url)
    try:
        async with engine.begin() as connection:
            await connection.execute(
                text(
                    "UPDATE outbox SET dead_letter_reason = :reason, publish_time = NULL,"
                    " confirm_time = NULL, partition_number = NULL, record_offset = NULL"
                    " WHERE tenant = :tenant"
                ),
                {"reason": reason, "tenant": platform.tenant},
            )
    finally:
        await engine.dispose()

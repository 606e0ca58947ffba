import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import grpc
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from callers import client_channel, code_of, make_identity
from embedded_servers import Database
from episodes.episodes.store_retention import FORGET
from episodes.publication import reconciler
from episodes.publication.reconciler import Findings, Reconciler
from episodes.publication.records import trajectory_record
from episodes.publication.relay import Relay
from episodes.publication.store_outbox import CHANNEL, OutboxStore
from episodes.publication.topic_kafka import TopicReader
from episodes.step_log.store_notifications import ENDS_CHANNEL
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    new_id,
    read_topic,
    run_platform,
    start,
)
from podium.episodes.v1 import dead_letter_service_pb2 as dead_letter_pb
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.identity import Scope
from podium_kit.stream import KafkaSettings
from podium_kit.stream.clients import Producer
from podium_operations.erasure.statements import EPISODES

if TYPE_CHECKING:
    from podium.episodes.v1.dead_letter_service_pb2_grpc import DeadLetterServiceAsyncStub


async def test_finished_episode_is_one_trajectory_and_one_closed_group(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await platform.run()
    records = await platform.records(2)
    assert [record.WhichOneof("record") for record in records] == ["trajectory", "group_closed"]
    trajectory, closed = records[0].trajectory, records[1].group_closed
    assert trajectory.episode_id == trajectory.group_id == closed.group_id == episode.id
    assert [len(turn.tool_invocations) for turn in trajectory.turns] == [1, 0]
    assert list(trajectory.turns[0].model_call.response.completion_token_ids) == [4, 5]
    assert (trajectory.tenant, trajectory.training_consent) == (platform.tenant, True)


@pytest.mark.parametrize("size", [1, 2])
async def test_an_end_and_its_records_are_announced(platform: Platform, size: int) -> None:
    heard: set[tuple[str, str]] = set()
    connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    try:
        for channel in (CHANNEL, ENDS_CHANNEL):
            await connection.add_listener(channel, lambda *news: heard.add(news[2:]))
        group = {"id": new_id(), "size": size}
        ended = await finished(platform.ada, (await start(platform.ada, group=group)).id)
        async with asyncio.timeout(60):
            while not heard >= {(CHANNEL, ""), (ENDS_CHANNEL, ended.id)}:
                await asyncio.sleep(0.01)
    finally:
        await connection.close()


async def test_modelled_latencies_count_and_are_marked(platform: Platform) -> None:
    platform.neighbours.adapters.modelled_s = {"calculator": 600, "search": 900}
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator"), call("search", index=1)), calls(call("calculator")), answer("42")
    )
    await platform.run()
    trajectory = (await platform.records(2))[0].trajectory
    made = [each for turn in trajectory.turns for each in turn.tool_invocations]
    assert [each.latency.seconds for each in made] == [600, 900, 600]
    assert all(each.latency_modelled for each in made)
    # Calls of a turn run side by side; no one waited for any.
    assert trajectory.features.modelled_latency.seconds == 1500
    assert 1500 <= trajectory.features.latency.seconds < 1600
    assert trajectory.latency.seconds < 100


async def test_group_is_closed_once_after_its_last_member_whatever_its_end(
    platform: Platform,
) -> None:
    members = [
        await start(platform.ada, group={"id": "g1", "size": 3, "sample_index": index})
        for index in range(3)
    ]
    await asyncio.gather(*(finished(platform.ada, member.id) for member in members))
    records = await platform.records(4)
    kinds = Counter(record.WhichOneof("record") for record in records)
    assert kinds == {"trajectory": 3, "group_closed": 1}
    assert records[-1].WhichOneof("record") == "group_closed"
    assert list(records[-1].group_closed.episode_ids) == [member.id for member in members]


async def test_large_trajectory_travels_by_reference(platform: Platform) -> None:
    platform.neighbours.adapters.content = lambda request: "x" * 60_000
    many = calls(*(call("search", index=index) for index in range(20)))
    platform.neighbours.orchestrator.decide = in_turns(many, answer("done"))
    episode = await platform.run()
    records = await platform.records(2)
    assert records[0].reference.episode_id == episode.id
    assert records[0].reference.size_bytes > 1_000_000


async def test_trajectory_a_trainer_could_not_use_is_kept_aside(platform: Platform) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    episode = await platform.run()
    records = await platform.records(1)
    assert [record.WhichOneof("record") for record in records] == ["group_closed"]
    assert "logprob" in await _dead_letter_reason(platform, episode.id)


@pytest.mark.chaos
async def test_records_the_broker_lost_are_published_again(
    database: Database, temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    kafka = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await kafka.start()
    url = await database("episodes")
    async with (
        run_platform(url, temporal, kafka, tmp_path) as platform,
        platform.client() as client,
    ):
        episode = await finished(client, (await start(client)).id)
        await platform.records(2)
        # The embedded broker keeps its log in memory, so a restart loses what it acknowledged.
        await kafka.kill()
        await kafka.start()
        await kafka.create_topics({platform.topic: 3})
        records = await platform.records(2)
    await kafka.stop()
    assert records[0].trajectory.episode_id == episode.id
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED


async def _dead_letter_reason(platform: Platform, episode_id: str) -> str:
    engine = create_async_engine(platform.database_url)
    try:
        async with engine.connect() as connection:
            reason = await connection.execute(
                text(
                    "SELECT dead_letter_reason FROM outbox"
                    " WHERE episode_id = CAST(:id AS uuid) AND kind = 'trajectory'"
                ),
                {"id": episode_id},
            )
            return str(reason.scalar_one())
    finally:
        await engine.dispose()


class BusyTopic(TopicReader):
    """A topic that grows right after its ends were read, as a topic in use does."""

    grow: Callable[[], None]

    def end_offsets(self) -> dict[int, int]:
        ends = super().end_offsets()
        self.grow()
        return ends


@dataclass
class Stream:
    outbox: OutboxStore
    relay: Relay
    topic: BusyTopic
    reconciler: Reconciler

    async def moved(self, kafka: EmbeddedKafka) -> None:
        name = f"empty-{new_id()[-8:]}"
        await kafka.create_topics({name: 1})
        self.topic._topic = self.relay._topic = name

    async def publish(self, count: int = 1) -> None:
        for _ in range(count):
            trajectory = trajectory_pb2.Trajectory(episode_id=new_id(), tenant="acme")
            trajectory.group_id = trajectory.episode_id
            await self.outbox.add(trajectory_record(trajectory))
        await self.relay.relay()


@pytest_asyncio.fixture
async def stream(engine: AsyncEngine, kafka: EmbeddedKafka) -> AsyncIterator[Stream]:
    name = f"busy-{new_id()[-8:]}"
    await kafka.create_topics({name: 1})
    settings = KafkaSettings(bootstrap=kafka.bootstrap_servers)
    outbox, producer = OutboxStore(engine), Producer(settings)
    topic = BusyTopic(settings, name)
    relay = Relay(outbox, producer, name)
    made = Stream(outbox, relay, topic, Reconciler(outbox, topic))
    loop = asyncio.get_running_loop()
    topic.grow = lambda: asyncio.run_coroutine_threadsafe(made.publish(), loop).result(30)
    yield made
    await producer.close()


async def test_what_is_published_during_a_reconciliation_does_not_look_lost(
    stream: Stream, kafka: EmbeddedKafka
) -> None:
    await stream.publish()
    findings = [await stream.reconciler.reconcile() for _ in range(3)]
    assert findings == [Findings(present=2, lost=0)] * 3
    await stream.relay.relay()
    records = await read_topic(kafka.bootstrap_servers, stream.topic._topic, 7, "acme")
    ids = [record.trajectory.episode_id for record in records]
    assert len(ids) == len(set(ids)) == 7


async def test_a_batch_of_records_is_found_whole(stream: Stream) -> None:
    """The embedded broker reports the end of a batch's first record as the topic's end."""
    stream.topic.grow = lambda: None
    await stream.publish(count=20)
    assert await stream.reconciler.reconcile() == Findings(present=20, lost=0)
    assert await stream.reconciler.reconcile() == Findings(present=0, lost=0)


async def test_more_records_than_a_batch_are_restored_to_an_empty_topic(
    stream: Stream, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.topic.grow = lambda: None
    await stream.publish(count=12)
    assert await stream.reconciler.reconcile() == Findings(present=12, lost=0)
    monkeypatch.setattr(reconciler, "BATCH", 5)
    await stream.moved(kafka)
    assert await stream.reconciler.reconcile() == Findings(present=0, lost=12)
    await stream.publish(count=1)
    assert await stream.reconciler.reconcile() == Findings(present=13, lost=0)
    records = await read_topic(kafka.bootstrap_servers, stream.topic._topic, 13, "acme")
    assert len({record.trajectory.episode_id for record in records}) == 13


async def test_a_record_whose_place_no_broker_said_is_found(
    stream: Stream, engine: AsyncEngine
) -> None:
    """The broker died between a record and its acknowledgement."""
    stream.topic.grow = lambda: None
    await stream.publish(count=3)
    async with engine.begin() as connection:
        newest = "(SELECT max(id) FROM outbox)"
        await connection.execute(text(f"UPDATE outbox SET record_offset = -1 WHERE id = {newest}"))
    assert await stream.reconciler.reconcile() == Findings(present=3, lost=0)


LIST = dead_letter_pb.ListDeadLettersRequest()
ALL_TENANTS = dead_letter_pb.ListDeadLettersRequest(all_tenants=True, page_size=500)


@asynccontextmanager
async def dead_letters(
    platform: Platform, *scopes: Scope, tenant: str = ""
) -> AsyncIterator["DeadLetterServiceAsyncStub"]:
    identity = make_identity(
        tenant or platform.tenant, "ada", scopes=scopes or (Scope.TENANT_ADMIN,)
    )
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield DeadLetterServiceStub(channel)


async def test_a_record_no_trainer_could_use_is_listed_and_stays_aside(platform: Platform) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    episode = await platform.run()
    async with dead_letters(platform) as letters:
        await _one_kept_aside(letters)
        (letter,) = (await letters.ListDeadLetters(LIST)).dead_letters
        assert (letter.tenant, letter.episode_id) == (platform.tenant, episode.id)
        assert "logprob" in letter.reason
        again = await letters.RedriveDeadLetters(
            dead_letter_pb.RedriveDeadLettersRequest(record_ids=[letter.record_id])
        )
        assert again.count == 1
        await _one_kept_aside(letters)


async def test_a_redriven_record_reaches_the_stream(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    await platform.run()
    await platform.records(2)
    await _dead_letter(platform, "the broker rejects it: MessageSizeTooLarge")
    async with dead_letters(platform) as letters:
        found = await letters.ListDeadLetters(dead_letter_pb.ListDeadLettersRequest(page_size=1))
        rest = await letters.ListDeadLetters(
            dead_letter_pb.ListDeadLettersRequest(page_token=found.next_page_token)
        )
        assert len(found.dead_letters) == len(rest.dead_letters) == 1
        assert (
            await letters.RedriveDeadLetters(dead_letter_pb.RedriveDeadLettersRequest())
        ).count == 2
    records = await platform.records(4)
    assert len(records) == 4


async def test_only_admins_redrive_and_only_what_is_theirs(platform: Platform) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    await platform.run()
    async with dead_letters(platform) as letters:
        await _one_kept_aside(letters)
        (letter,) = (await letters.ListDeadLetters(LIST)).dead_letters
        named = dead_letter_pb.RedriveDeadLettersRequest(record_ids=[letter.record_id])
        for request in (ALL_TENANTS, dead_letter_pb.RedriveDeadLettersRequest(all_tenants=True)):
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
    request: dead_letter_pb.ListDeadLettersRequest | dead_letter_pb.RedriveDeadLettersRequest,
    code: grpc.StatusCode,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        if isinstance(request, dead_letter_pb.ListDeadLettersRequest):
            await letters.ListDeadLetters(request)
        else:
            await letters.RedriveDeadLetters(request)
    assert rejected.value.code() is code


async def _dead_letter(platform: Platform, reason: str) -> None:
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


DAYS = 30
BODIES = "SELECT count(*) FROM segments WHERE position($1::bytea IN body) > 0"
ATTACHMENT = "INSERT INTO attachments VALUES ('acme', $1::uuid, sha256('x'), 'x')"
REFERRING = """
    SELECT conrelid::regclass::text AS table FROM pg_constraint
    WHERE confrelid = 'episodes'::regclass AND confdeltype <> 'c'
"""
UNREFERENCED = """
    SELECT count(*) FROM segments s WHERE NOT EXISTS (SELECT FROM steps WHERE digest = s.digest)
        AND NOT EXISTS (SELECT FROM outbox WHERE digest = s.digest)
        AND NOT EXISTS (SELECT FROM episodes WHERE toolset_digest = s.digest)
"""


@pytest_asyncio.fixture
async def forgetful(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[Platform]:
    settings = {"keep_episodes_days": str(DAYS)}
    url = await database("episodes")
    async with run_platform(url, temporal, kafka, tmp_path, settings) as platform:
        yield platform


async def query(platform: Platform, statement: str, *values: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    try:
        rows: list[asyncpg.Record] = await connection.fetch(statement, *values)
        return rows
    finally:
        await connection.close()


async def count(platform: Platform, statement: str, *values: object) -> int:
    return int((await query(platform, statement, *values))[0][0])


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await holds():
            await asyncio.sleep(0.1)


async def ran(platform: Platform, task: str, **spec: object) -> str:
    episode = await platform.run(task, **spec)
    await platform.ada.GiveFeedback(
        pb.GiveFeedbackRequest(episode_id=episode.id, id="said", label="good", comment=task)
    )

    async def read_back() -> bool:
        owed = "SELECT count(*) FROM outbox WHERE confirm_time IS NULL AND group_id = $1"
        return not await count(platform, owed, episode.spec.group.id or episode.id)

    await until(read_back)
    return episode.id


async def age(platform: Platform, *episode_ids: str) -> None:
    older = f"end_time - interval '{DAYS + 1} days'"
    await query(
        platform,
        f"UPDATE episodes SET end_time = {older} WHERE id = ANY($1::uuid[])",
        list(episode_ids),
    )


async def restarted(platform: Platform) -> None:
    """The worker forgets when it starts, and from then on every ten minutes."""
    await platform.worker.kill()
    platform.worker.start()


async def kept(platform: Platform) -> set[str]:
    return {str(row["id"]) for row in await query(platform, "SELECT id FROM episodes")}


async def test_an_old_episode_is_forgotten_with_everything_it_said(forgetful: Platform) -> None:
    old = await ran(forgetful, "the old canary")
    young = await ran(forgetful, "the young canary")
    assert await count(forgetful, BODIES, b"the old canary")
    await query(forgetful, "INSERT INTO approval_decisions VALUES ($1::uuid, 1, 0)", old)
    for owner in (old, young):
        await query(forgetful, ATTACHMENT, owner)
    await age(forgetful, old)
    await restarted(forgetful)

    async def forgotten() -> bool:
        return await kept(forgetful) == {young}

    await until(forgotten)
    assert not await count(forgetful, BODIES, b"the old canary")
    assert await count(forgetful, BODIES, b"the young canary")
    assert not await count(forgetful, UNREFERENCED)
    owners = await query(forgetful, "SELECT owner_id FROM attachments")
    assert [str(row["owner_id"]) for row in owners] == [young]
    for table in ("steps", "feedback", "client_results", "approval_decisions", "outbox"):
        held = f"SELECT count(*) FROM {table} WHERE episode_id = $1::uuid"
        assert not await count(forgetful, held, old), table
    async with forgetful.client() as client:
        assert (
            await code_of(client.GetEpisode(pb.GetEpisodeRequest(episode_id=old)))
            is grpc.StatusCode.NOT_FOUND
        )
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=young))
        assert reply.trajectory.episode_id == young
        assert (await finished(client, (await start(client)).id)).answer


async def test_no_table_that_refers_to_episodes_is_forgotten_about(database: Database) -> None:
    """A new one would make forgetting and erasing fail for its first row."""
    connection = await asyncpg.connect((await database("episodes")).replace("+asyncpg", ""))
    try:
        found = {row["table"] for row in await connection.fetch(REFERRING)}
    finally:
        await connection.close()
    assert {"steps", "feedback"} <= found
    assert not {table for table in found if f"DELETE FROM {table} " not in FORGET.text}
    assert found <= EPISODES.keys()


async def test_what_is_owed_or_belongs_to_an_open_group_is_kept(forgetful: Platform) -> None:
    open_group = episode_pb2.Group(id=new_id(), size=2, sample_index=0)
    first_of_two = await ran(forgetful, "one of two", group=open_group)
    owed, old = await ran(forgetful, "owed"), await ran(forgetful, "old")
    dead = "UPDATE outbox SET confirm_time = NULL, dead_letter_reason = 'x' WHERE episode_id = $1"
    await query(forgetful, dead, owed)
    await age(forgetful, first_of_two, owed, old)
    await restarted(forgetful)

    async def forgotten() -> bool:
        return old not in await kept(forgetful)

    await until(forgotten)
    assert await kept(forgetful) == {first_of_two, owed}

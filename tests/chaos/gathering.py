import asyncio
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from chaos.invariants import Bill, Call, Charge, Observed, Record
from chaos.load import Started
from chaos.scene import Scene
from chaos.scripts import ORDER_TOOLS
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.stream import KafkaSettings
from podium_kit.stream.clients import end_offsets

# The id of a record, and what it says.
Message = tuple[str, trajectory_pb2.TrajectoryRecord]

TOPIC = "trajectories.v1"
STREAM_S = 90.0
POLL_S = 1.0
CHARGES = """
    SELECT episode_id, key, spend + provisional AS amount, quantities::text AS quantities,
           coalesce(provider_request_id, '') AS request_id
    FROM entry WHERE kind IN ('capture', 'record') AND episode_id = ANY($1)
"""
HOLDS = "SELECT key FROM hold WHERE state = 'open' AND episode_id = ANY($1)"
COSTS = """
    SELECT id::text AS id, coalesce(cost, 0) AS cost FROM episodes
    WHERE id::text = ANY($1) AND stop_reason IS NOT NULL AND unpriced_call_count = 0
"""
STORED = """
    SELECT encode(digest, 'hex') AS digest, body FROM segments
    WHERE digest = ANY(SELECT decode(one, 'hex') FROM unnest($1::text[]) AS one)
"""
# A child's id bears the time of its parent's.
CHILDREN = "SELECT id::text AS id, spec, stop_reason FROM episodes WHERE id >= $1::uuid"


async def observed(
    scene: Scene,
    started: Sequence[Started],
    ended: set[str],
    blocked_starts: int,
    excused: frozenset[str],
    billed_before: int,
) -> Observed:
    """All of it, once every ended episode is on the stream or had its time to get there.

    `billed_before` is how many lines the model server's log had when the episodes began.
    """
    parents = frozenset(one.id for one in started)
    children = await _children(scene, parents)
    ids = parents | children.keys()
    ended = ended | {child for child, has_ended in children.items() if has_ended}
    records = await _streamed(scene, ids, ended)
    charges = await _rows(scene, "cost_ledger", CHARGES, list(ids))
    holds = await _rows(scene, "cost_ledger", HOLDS, list(ids))
    costs = await _rows(scene, "episodes", COSTS, list(ids))
    return Observed(
        accepted=ids,
        ended=frozenset(ended),
        blocked_starts=blocked_starts,
        orders={order: one.id for one in started for order in one.task.orders},
        records=records,
        charges=[_charge(row) for row in charges],
        # An expert is asked without a key, so no one else knows whose reply it was.
        bills=[one for one in _bills(scene, billed_before) if not one.key or one.episode_id in ids],
        effects=[json.loads(line) for line in _lines(scene.effects_log)],
        open_holds=[row["key"] for row in holds],
        reported={row["id"]: row["cost"] for row in costs},
        poisoned=frozenset(one.id for one in started if one.task.poison),
        excused=excused,
    )


async def _children(scene: Scene, parents: frozenset[str]) -> dict[str, bool]:
    if not parents:
        return {}
    earliest = uuid.UUID(int=min(uuid.UUID(one).int for one in parents) >> 80 << 80)
    rows = await _rows(scene, "episodes", CHILDREN, str(earliest))
    specs = {row["id"]: episode_pb2.EpisodeSpec.FromString(row["spec"]) for row in rows}
    known = set(parents)
    while found := {one for one, spec in specs.items() if spec.parent.episode_id in known} - known:
        known |= found
    return {row["id"]: bool(row["stop_reason"]) for row in rows if row["id"] in known - parents}


async def _streamed(scene: Scene, ids: frozenset[str], ended: set[str]) -> list[Record]:
    loop = asyncio.get_running_loop()
    until = loop.time() + STREAM_S
    while True:
        messages = await asyncio.to_thread(_readable, scene)
        records = [one for each in await _complete(scene, messages) if (one := _record(each, ids))]
        if ended <= {one.episode_id for one in records} or loop.time() > until:
            return records
        await asyncio.sleep(POLL_S)


def _readable(scene: Scene) -> list[Message]:
    try:
        return read_stream(scene)
    except KafkaError:
        return []


def read_stream(scene: Scene) -> list[Message]:
    assert scene.connection is not None
    kafka = KafkaSettings.model_validate(scene.connection.kafka)
    consumer = KafkaConsumer(**kafka.arguments(), enable_auto_commit=False)
    found: list[Message] = []
    try:
        numbers = consumer.partitions_for_topic(TOPIC) or set()
        partitions = [TopicPartition(TOPIC, number) for number in sorted(numbers)]
        ends = end_offsets(consumer, partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                found += [_message(each) for each in records]
        return found
    finally:
        consumer.close()


def _message(raw: Any) -> Message:
    record_id = dict(raw.headers)["record-id"].decode()
    return record_id, trajectory_pb2.TrajectoryRecord.FromString(raw.value)


async def _complete(scene: Scene, messages: list[Message]) -> list[Message]:
    """With the trajectories that were too large for the topic, from where they are stored."""
    digests = [one.reference.digest for _, one in messages if one.HasField("reference")]
    rows = await _rows(scene, "episodes", STORED, digests)
    stored = {row["digest"]: row["body"] for row in rows}
    return [
        (record_id, trajectory_pb2.TrajectoryRecord.FromString(stored[one.reference.digest]))
        if one.HasField("reference")
        else (record_id, one)
        for record_id, one in messages
    ]


def _record(message: Message, ids: frozenset[str]) -> Record | None:
    record_id, one = message
    seen = one.trajectory
    if not one.HasField("trajectory") or seen.episode_id not in ids:
        return None
    reason = episode_pb2.StopReason.Name(seen.stop_reason).removeprefix("STOP_REASON_")
    calls = [_call(one) for turn in seen.turns for one in turn.tool_invocations]
    cost = Decimal(seen.cost.amount or "0")
    return Record(record_id, seen.episode_id, reason, cost, tuple(calls))


def _call(one: trajectory_pb2.ToolInvocation) -> Call:
    asked, failure, message = one.observation.call, "", one.observation.failure.message
    if one.observation.HasField("failure"):
        kind = failure_pb2.FailureKind.Name(one.observation.failure.kind)
        failure = kind.removeprefix("FAILURE_KIND_")
    arguments = json.loads(asked.arguments_json or "{}")
    order = arguments.get("order", "") if asked.tool_name in ORDER_TOOLS else ""
    return Call(one.key, asked.tool_name, failure, order, message)


def _charge(row: asyncpg.Record) -> Charge:
    used = json.loads(row["quantities"] or "{}")
    tokens = (int(Decimal(used.get("input_fresh", 0))), int(Decimal(used.get("output_text", 0))))
    return Charge(row["episode_id"], row["key"], row["amount"], row["request_id"], tokens)


def billed(scene: Scene) -> int:
    return len(_lines(scene.billing_log))


def _bills(scene: Scene, before: int) -> list[Bill]:
    """A request with a key is billed once, however often it is repeated."""
    found = {}
    for line in _lines(scene.billing_log)[before:]:
        one = json.loads(line)
        if isinstance(one.get("prompt_tokens"), int) and "completion_tokens" in one:
            tokens = (one["prompt_tokens"], one["completion_tokens"])
            found[one["id"]] = Bill(one["id"], one["key"], tokens)
    return list(found.values())


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def _rows(scene: Scene, database: str, query: str, ids: object) -> list[asyncpg.Record]:
    dsn = EmbeddedPostgres(scene.platform.state.path / "postgres").dsn(database)
    connection = await asyncpg.connect(dsn.replace("+asyncpg", ""))
    try:
        rows: list[asyncpg.Record] = await connection.fetch(query, ids)
        return rows
    finally:
        await connection.close()

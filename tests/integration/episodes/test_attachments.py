import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from builders.media_files import attached, make_image, make_pdf
from callers import client_channel, make_identity
from embedded_servers import Database
from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.store import DirectCallStore
from episodes.episodes.store_retention import RetentionStore
from episodes.store import EpisodeStore
from integration.episodes.attempts import new_episode
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    new_id,
    run_platform,
    start,
)
from podium.common.v1 import attachment_pb2, money_pb2
from podium.episodes.v1 import direct_call_service_pb2 as direct_pb
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceStub
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.attachments import IMAGE_TOKENS, PDF_TOKENS
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.postgres.engine import autocommit
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.identity import ROLE_SCOPES, Role
from podium_kit.rpc.status import domain_error_from

if TYPE_CHECKING:
    from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceAsyncStub

IMAGE, PDF = attachment_pb2.MEDIA_KIND_IMAGE, attachment_pb2.MEDIA_KIND_PDF
RED = attached("[image 1: image/png, 64x48, 1 kB]", make_image())
PLAN = attached("[PDF 2: plan.pdf, 1 kB]", make_pdf(), "application/pdf", "plan.pdf")
FILES = [RED, PLAN]
TASK = "\n".join(["Compare", RED.attachment.placeholder, PLAN.attachment.placeholder])
BOTH = calls(call("expert", '{"model": "eyes"}'), call("expert", '{"model": "blind"}', 1))


def readers() -> toolset_pb2.Toolset:
    toolset = make_toolset("expert", "calculator")
    tool = toolset.tools[0]
    tool.kind, tool.max_output_tokens = tool_pb2.TOOL_KIND_LLM, 1000
    for alias, kinds in {"eyes": [IMAGE], "scholar": [IMAGE, PDF], "blind": []}.items():
        tool.model_skus[alias] = f"m/{alias}"
        tool.model_aliases.append(alias)
        if kinds:
            tool.model_takes[alias].kinds.extend(kinds)
    return toolset


def starting(
    *files: attachment_pb2.AttachedFile, data: list[bytes] | None = None, **spec: Any
) -> pb.StartEpisodeRequest:
    sent = [file.data for file in files] if data is None else data
    attachments = [file.attachment for file in files]
    return pb.StartEpisodeRequest(
        episode_id=new_id(),
        spec=episode_pb2.EpisodeSpec(**{"task": TASK, "attachments": attachments, **spec}),
        attachment_data=sent,
    )


@asynccontextmanager
async def direct_calls(platform: Platform) -> AsyncIterator["DirectCallServiceAsyncStub"]:
    toolset = readers()
    del toolset.tools[1]
    platform.neighbours.registry.toolset = toolset
    identity = make_identity(platform.tenant, "ada")
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield DirectCallServiceStub(channel)


async def ended(stub: "DirectCallServiceAsyncStub", call_id: str) -> None:
    asked = direct_pb.GetDirectCallRequest(call_id=call_id, wait=True)
    while not (await stub.GetDirectCall(asked)).call.ended:
        pass


async def test_each_expert_is_sent_what_it_reads(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = readers()
    neighbours.orchestrator.decide = in_turns(BOTH, answer("equal"))
    episode = (await platform.ada.StartEpisode(request := starting(*FILES))).episode
    again = (await platform.ada.StartEpisode(request)).episode
    await finished(platform.ada, episode.id)
    reply = await platform.ada.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    assert again.id == episode.id
    asked = {each.key[-1]: each for each in neighbours.adapters.requests}
    assert list(asked["0"].files) == [RED]
    assert asked["0"].task == f"{TASK}\n\nNot shown to you: {PLAN.attachment.placeholder}"
    assert not asked["1"].files
    # A replacement must see the same.
    assert list(asked["0"].fallback_models) == list(asked["1"].fallback_models) == []
    # The orchestrator reads what stands for them, and nothing else has their bytes.
    assert {each.task for each in neighbours.orchestrator.requests} == {TASK}
    assert list(reply.trajectory.attachments) == [RED.attachment, PLAN.attachment]
    assert RED.data not in reply.SerializeToString()


async def test_another_model_that_reads_the_same_may_answer(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = readers()
    neighbours.orchestrator.decide = in_turns(
        calls(call("expert", '{"model": "eyes"}')), answer("red")
    )
    episode = (await platform.ada.StartEpisode(starting(RED, task="What?"))).episode
    await finished(platform.ada, episode.id)
    [asked] = neighbours.adapters.requests
    assert list(asked.fallback_models) == ["scholar"]
    held = neighbours.ledger.holds[asked.key]
    assert int(held.worst_case[0].amount) > IMAGE_TOKENS


async def test_tools_that_read_it_are_asked_for(platform: Platform) -> None:
    platform.neighbours.registry.toolset = readers()
    await platform.ada.StartEpisode(starting(*FILES))
    [asked] = platform.neighbours.registry.asked
    assert list(asked.attached) == [IMAGE, PDF]


async def test_a_file_that_is_kept_need_not_be_sent_again(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = readers()
    neighbours.orchestrator.decide = in_turns(BOTH, answer("equal"))
    await finished(platform.ada, (await platform.ada.StartEpisode(starting(RED))).episode.id)
    neighbours.adapters.requests.clear()
    await finished(
        platform.ada, (await platform.ada.StartEpisode(starting(RED, data=[]))).episode.id
    )
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await platform.ada.StartEpisode(starting(PLAN, data=[]))
    assert RED in [file for each in neighbours.adapters.requests for file in each.files]
    assert "its bytes are not here" in (missing.value.details() or "")
    stranger = platform.for_new_tenant()
    stranger.neighbours.registry.toolset = readers()
    with pytest.raises(grpc.aio.AioRpcError) as secret:
        await stranger.ada.StartEpisode(starting(RED, data=[]))
    assert "its bytes are not here" in (secret.value.details() or "")


async def test_a_file_that_is_kept_is_copied_for_its_readers_alone(platform: Platform) -> None:
    platform.neighbours.registry.toolset = readers()
    owner = ROLE_SCOPES[Role.TOOL_OWNER]
    copied = []
    for subject, scopes, data in (
        ("ada", owner, None),
        ("ada", owner, []),
        ("eve", owner, []),
        ("bob", ROLE_SCOPES[Role.DEVELOPER], []),
    ):
        identity = make_identity(platform.tenant, subject, scopes)
        async with client_channel(platform.port, identity, platform.keys) as channel:
            try:
                await EpisodeServiceStub(channel).StartEpisode(starting(RED, data=data))
            except grpc.aio.AioRpcError as error:
                assert "its bytes are not here" in (error.details() or "")
            else:
                copied.append(subject)
    assert copied == ["ada", "ada", "bob"]


@pytest.mark.parametrize("changes", [{"size_bytes": 1}, {"media_type": "image/gif"}])
async def test_a_file_that_is_kept_cannot_be_misstated(
    platform: Platform, changes: dict[str, Any]
) -> None:
    platform.neighbours.registry.toolset = readers()
    await finished(platform.ada, (await platform.ada.StartEpisode(starting(RED))).episode.id)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await platform.ada.StartEpisode(starting(described(**changes), data=[]))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "not of the size and type that it states" in (raised.value.details() or "")


async def test_what_nobody_reads_starts_nothing(platform: Platform) -> None:
    toolset = readers()
    toolset.tools[0].model_takes.pop("scholar")
    platform.neighbours.registry.toolset = toolset
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await platform.ada.StartEpisode(starting(*FILES))
    assert not (await platform.ada.ListEpisodes(pb.ListEpisodesRequest())).episodes
    # Without any it is an episode as others.
    await finished(platform.ada, (await start(platform.ada)).id)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    words = raised.value.details() or ""
    assert words.startswith("[PDF 2: plan.pdf, 1 kB]: no language model that the episode may ask")
    assert "takes: [pdf]" in words


def described(**changes: Any) -> attachment_pb2.AttachedFile:
    file = attachment_pb2.AttachedFile()
    file.CopyFrom(RED)
    for name, value in changes.items():
        setattr(file.attachment, name, value)
    return file


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        (lambda: starting(*[RED] * 21), "attachments holds 21; give at most 20"),
        (lambda: starting(RED, RED), "two attachments have one placeholder"),
        (lambda: starting(described(placeholder="")), "placeholder is empty"),
        (lambda: starting(described(media_type="text/html")), "give one of image/png"),
        (lambda: starting(described(digest="ff")), "give a SHA-256"),
        (lambda: starting(described(size_bytes=0)), "size_bytes is unset"),
        (lambda: starting(described(size_bytes=21 << 20), data=[]), "over 20 MiB together"),
        (lambda: starting(described(media_type="image/gif")), "bytes of image/png, and its"),
        (lambda: starting(RED, data=[b"else"]), "attachment_data[0] is of no attachment"),
    ],
    ids=["count", "twice", "placeholder", "type", "digest", "size", "large", "other", "foreign"],
)
async def test_files_are_what_the_request_says(
    platform: Platform, request_of: Any, words: str
) -> None:
    platform.neighbours.registry.toolset = readers()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await platform.ada.StartEpisode(request_of())
    assert not (await platform.ada.ListEpisodes(pb.ListEpisodesRequest())).episodes
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (raised.value.details() or "")


async def test_a_direct_call_shows_its_files_to_the_model(platform: Platform) -> None:
    def asking(alias: str) -> direct_pb.StartDirectCallRequest:
        spec = direct_pb.DirectCallSpec(
            tool_name="expert",
            model_alias=alias,
            messages=[orchestrator_pb.ConversationMessage(role="user", content=TASK)],
            attachments=[file.attachment for file in FILES],
        )
        data = [file.data for file in FILES]
        return direct_pb.StartDirectCallRequest(call_id=new_id(), spec=spec, attachment_data=data)

    async with direct_calls(platform) as stub:
        await ended(stub, (await stub.StartDirectCall(asking("scholar"))).call.id)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.StartDirectCall(asking("eyes"))
    [asked] = platform.neighbours.adapters.requests
    assert list(asked.files) == FILES
    assert asked.conversation.messages[0].content == TASK
    assert int(platform.neighbours.ledger.holds[asked.key].worst_case[0].amount) > IMAGE_TOKENS
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "expert/eyes does not read it" in (raised.value.details() or "")


@pytest.mark.parametrize(("measured", "held"), [(6_000, 6_000), (0, PDF_TOKENS)])
async def test_a_hold_covers_the_pages_of_a_pdf(
    platform: Platform, measured: int, held: int
) -> None:
    """Attack 35."""
    neighbours = platform.neighbours
    neighbours.registry.toolset = readers()
    neighbours.adapters.pdf_tokens = measured
    scholar = calls(call("expert", '{"model": "scholar"}'))
    neighbours.orchestrator.decide = in_turns(scholar, scholar, answer("read"))
    await finished(platform.ada, (await platform.ada.StartEpisode(starting(PLAN))).episode.id)
    first, second = neighbours.adapters.requests
    neighbours.orchestrator.decide = in_turns(scholar, answer("read"))
    # The bytes are kept with what they were measured at.
    await finished(
        platform.ada, (await platform.ada.StartEpisode(starting(PLAN, data=[]))).episode.id
    )
    copied = neighbours.adapters.requests[-1]
    assert neighbours.adapters.measured == [PLAN.data]
    for asked in (first, second, copied):
        amount = int(neighbours.ledger.holds[asked.key].worst_case[0].amount)
        assert held < amount < held + 5_000
        assert [file.tokens for file in asked.files] == [measured]


async def test_so_does_that_of_a_direct_call(platform: Platform) -> None:
    platform.neighbours.adapters.pdf_tokens = 6_000
    message = orchestrator_pb.ConversationMessage(role="user", content=PLAN.attachment.placeholder)
    spec = direct_pb.DirectCallSpec(
        tool_name="expert",
        model_alias="scholar",
        messages=[message],
        attachments=[PLAN.attachment],
    )
    async with direct_calls(platform) as stub:
        request = direct_pb.StartDirectCallRequest(
            call_id=new_id(), spec=spec, attachment_data=[PLAN.data]
        )
        await stub.StartDirectCall(request)
        await ended(stub, request.call_id)
    [asked] = platform.neighbours.adapters.requests
    amount = int(platform.neighbours.ledger.holds[asked.key].worst_case[0].amount)
    assert 6_000 < amount < 11_000


FILES_MAX, BYTES_MAX = 6, 10_000
STARTS = 20
BUDGET = money_pb2.Money(currency_code="USD", amount="0.5")
USE = "SELECT files, bytes FROM attachment_use WHERE tenant = $1"
COUNTED = "SELECT count(*), coalesce(sum(octet_length(data)), 0) FROM attachments WHERE tenant = $1"


@pytest_asyncio.fixture
async def limited(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[Platform]:
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


async def test_twenty_starts_at_once_keep_exactly_what_may_be_kept(limited: Platform) -> None:
    requests = [starting(pdf(number)) for number in range(STARTS)]
    answers = await asyncio.gather(*(rejection(limited.ada.StartEpisode(one)) for one in requests))
    kept = [
        request for request, rejected in zip(requests, answers, strict=True) if rejected is None
    ]
    assert len(kept) == FILES_MAX
    assert await use(limited.database_url, "acme") == (FILES_MAX, FILES_MAX * 100)
    # What was rejected left nothing; the retry of what was not finds its episode.
    listed = await limited.ada.ListEpisodes(pb.ListEpisodesRequest(page_size=500))
    assert {each.id for each in listed.episodes} == {each.episode_id for each in kept}
    assert await rejection(limited.ada.StartEpisode(kept[0])) is None
    # Without files nothing is full, and the next tenant has a quota of its own.
    assert await rejection(limited.ada.StartEpisode(starting(task="what is 6 x 7?"))) is None
    for each in kept:
        await finished(limited.ada, each.episode_id)
    async with limited.client("globex") as other:
        assert await rejection(other.StartEpisode(starting(pdf(1)))) is None
    assert await use(limited.database_url, "globex") == (1, 100)


async def test_a_rejection_names_quota_use_and_fix_before_anything_is_made(
    limited: Platform,
) -> None:
    assert await rejection(limited.ada.StartEpisode(starting(pdf(1, 6_000)))) is None
    request = starting(pdf(2, 5_000))
    request.spec.budget.CopyFrom(BUDGET)
    error = await rejection(limited.ada.StartEpisode(request))
    # A copy of what is kept is kept once more, with its new owner.
    again = await rejection(limited.ada.StartEpisode(starting(pdf(1, 6_000), data=[])))
    # One content twice is one file.
    twice = [attached("[PDF 1]", pdf(3).data, "application/pdf"), pdf(3)]
    assert await rejection(limited.ada.StartEpisode(starting(*twice))) is None
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


async def test_a_tenants_own_quota_stands_in_place_of_the_one_for_all(limited: Platform) -> None:
    request = starting(pdf(1))
    request.file_quota.files = 0
    error = await rejection(limited.ada.StartEpisode(request))
    request.file_quota.files = 1
    assert await rejection(limited.ada.StartEpisode(request)) is None
    # More than others may, too; what is left out is as for all.
    larger = starting(pdf(2, BYTES_MAX))
    larger.file_quota.size_bytes = 2 * BYTES_MAX
    assert await rejection(limited.ada.StartEpisode(larger)) is None
    assert await rejection(limited.ada.StartEpisode(starting(pdf(3)))) is not None
    assert error and "1 files of at most 0" in error.message and "podium limits" in error.message


async def test_a_direct_call_is_no_way_around(limited: Platform) -> None:
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


async def test_what_is_deleted_makes_room(limited: Platform) -> None:
    requests = [starting(pdf(number)) for number in range(FILES_MAX)]
    for each in requests:
        await limited.ada.StartEpisode(each)
        await finished(limited.ada, each.episode_id)
    assert await rejection(limited.ada.StartEpisode(starting(pdf(99)))) is not None
    gone = [each.episode_id for each in requests[:2]]
    delete = "DELETE FROM attachments WHERE owner_id = ANY($1::uuid[])"
    await execute(limited.database_url, delete, gone)
    assert await use(limited.database_url, "acme") == (FILES_MAX - 2, (FILES_MAX - 2) * 100)
    answers = [await rejection(limited.ada.StartEpisode(starting(pdf(n)))) for n in range(50, 53)]
    assert [each is None for each in answers] == [True, True, False]
    await execute(limited.database_url, "DELETE FROM attachments")
    assert await use(limited.database_url, "acme") == (0, 0)


OWN, OTHER = "acme", "globex"
KEEP = text(
    "INSERT INTO attachments (tenant, owner_id, digest, data)"
    " VALUES (:tenant, CAST(:owner AS uuid), 'digest', 'data')"
)
KEPT = text("SELECT tenant FROM attachments WHERE owner_id = CAST(:owner AS uuid)")
END = text(
    "UPDATE episodes SET stop_reason = 'answered', end_time = now() - interval '2 days'"
    " WHERE id = CAST(:owner AS uuid)"
)


async def keep_files(engine: AsyncEngine, owner: str) -> None:
    async with autocommit(engine) as connection:
        for tenant in (OWN, OTHER):
            await connection.execute(KEEP, {"tenant": tenant, "owner": owner})


async def kept_by(engine: AsyncEngine, owner: str) -> list[str]:
    async with autocommit(engine) as connection:
        return list((await connection.execute(KEPT, {"owner": owner})).scalars())


async def test_a_direct_call_that_is_forgotten_takes_its_own_files_along(
    engine: AsyncEngine,
) -> None:
    owner = new_episode().episode_id
    await keep_files(engine, owner)
    store, began = DirectCallStore(engine), datetime.now(UTC) - timedelta(days=8)
    await store.insert(StoredCall(owner, OWN, "ada", b"spec", b"toolset", began))
    await store.forget()
    assert await kept_by(engine, owner) == [OTHER]


async def test_an_episode_that_is_forgotten_takes_its_own_files_along(engine: AsyncEngine) -> None:
    new = new_episode(tenant=OWN)
    await EpisodeStore(engine).insert(new)
    await keep_files(engine, new.episode_id)
    async with autocommit(engine) as connection:
        await connection.execute(END, {"owner": new.episode_id})
    await RetentionStore(engine, days=1, evaluation_days=0).forget()
    assert await kept_by(engine, new.episode_id) == [OTHER]

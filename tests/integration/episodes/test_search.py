"""Lists of episodes: filters, orders, pages, counts, and what readers without a scope find."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from callers import code_of
from episodes.episodes import store_search
from episodes.episodes.convert_search import position_token
from episodes.episodes.search import EpisodeFilter, PagePosition
from episodes.episodes.store_search import EpisodeSearch
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, new_id, start, until_asked
from integration.episodes.test_access import caller
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Role
from podium_kit.wire import money_from_proto

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

COST, DURATION = pb.EPISODE_ORDER_COST, pb.EPISODE_ORDER_DURATION


async def played(platform: Platform, *turns: Any, task: str = "sum up", **spec: Any) -> str:
    platform.neighbours.orchestrator.decide = in_turns(*turns)
    return (await platform.run(task, **spec)).id


async def found(
    client: "EpisodeServiceAsyncStub", order: Any = None, size: int = 500, **wanted: Any
) -> list[episode_pb2.Episode]:
    """Returns all pages."""
    request = pb.ListEpisodesRequest(
        filter=pb.EpisodeFilter(**wanted), order_by=order, page_size=size
    )
    episodes: list[episode_pb2.Episode] = []
    while True:
        page = await client.ListEpisodes(request)
        assert len(page.episodes) <= size
        episodes += page.episodes
        request.page_token = page.next_page_token
        if not request.page_token:
            return episodes


async def ids(client: "EpisodeServiceAsyncStub", **wanted: Any) -> list[str]:
    return [each.id for each in await found(client, **wanted)]


async def various(platform: Platform) -> Mapping[str, str]:
    """Episodes by name: one that called a tool, one whose tool failed, one that waits."""
    search = calls(call("search"))
    called = await played(platform, search, answer("42"), task="Weigh the whale", model="scripted")
    platform.neighbours.adapters.failures["calculator"] = "it is broken"
    failed = await played(
        platform, calls(call("calculator")), answer("?"), task="Add up", labels={"batch": "one"}
    )
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    await platform.announce_change()
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    waiting = (await start(platform.ada, "Pay the bill", labels={"batch": "two"})).id
    await until_asked(platform.ada, waiting)
    return {"called": called, "failed": failed, "waiting": waiting}


async def test_each_filter_keeps_what_it_names(platform: Platform) -> None:
    made = await various(platform)
    names = {episode_id: name for name, episode_id in made.items()}
    hour = timedelta(hours=1)
    past, future = Timestamp(), Timestamp()
    past.FromDatetime(datetime.now(UTC) - hour)
    future.FromDatetime(datetime.now(UTC) + hour)
    failure = failure_pb2.FAILURE_KIND_TOOL_ERROR
    ended = {"called", "failed"}
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {*ended, "waiting"}),
        ({"states": [episode_pb2.EPISODE_STATE_WAITING]}, {"waiting"}),
        ({"states": [episode_pb2.EPISODE_STATE_RUNNING]}, set()),
        ({"states": [episode_pb2.EPISODE_STATE_FINISHED]}, ended),
        ({"labels": {"batch": "one"}}, {"failed"}),
        ({"labels": {"batch": "two"}}, {"waiting"}),
        ({"words": "whale"}, {"called"}),
        ({"words": "the bill"}, {"waiting"}),
        ({"words": "whale bill"}, set()),
        ({"stop_reasons": [episode_pb2.STOP_REASON_ANSWERED]}, ended),
        ({"stop_reasons": [episode_pb2.STOP_REASON_FAILED]}, set()),
        ({"models": ["scripted"]}, {"called"}),
        ({"models": [""]}, {"failed", "waiting"}),
        ({"tool_names": ["search", "other"]}, {"called"}),
        ({"subjects": ["ada"]}, {*ended, "waiting"}),
        ({"subjects": ["bob"]}, set()),
        ({"teams": ["search"]}, set()),
        ({"failure_kinds": [failure]}, {"failed"}),
        ({"group_id": made["failed"]}, {"failed"}),
        ({"group_id": made["waiting"]}, {"waiting"}),
        ({"start_time": past, "end_time": future}, {*ended, "waiting"}),
        ({"start_time": future}, set()),
        ({"end_time": past}, set()),
        ({"min_cost": "0"}, ended),
        ({"min_cost": "1000"}, set()),
        ({"max_cost": "1000"}, ended),
        ({"min_duration": Duration(seconds=0)}, ended),
        ({"min_duration": Duration(seconds=9_000)}, set()),
        ({"max_duration": Duration(seconds=9_000)}, ended),
        ({"min_score": 0.0}, set()),
        ({"unpriced": True}, set()),
        ({"training_consent": True}, ended),
    ]
    for wanted, expected in cases:
        kept = {names[each] for each in await ids(platform.ada, **wanted)}
        assert kept == expected, wanted


async def test_a_filter_keeps_episodes_with_consent_to_training(platform: Platform) -> None:
    consenting = await played(platform, answer("42"))
    platform.neighbours.registry.toolset = make_toolset("search")
    platform.neighbours.registry.toolset.training_consent = False
    other = await played(platform, answer("42"), policy="another")
    assert set(await ids(platform.ada)) == {consenting, other}
    assert await ids(platform.ada, training_consent=True) == [consenting]


async def test_orders_page_through_every_episode_once(platform: Platform) -> None:
    tasks = ["a" * length for length in (10, 2_000, 300, 300, 5)]
    made = [await played(platform, answer("42"), task=task) for task in tasks]
    for order, key in (
        (None, lambda each: each.create_time.ToNanoseconds()),
        (COST, lambda each: money_from_proto(each.cost).amount),
        (DURATION, None),
    ):
        episodes = await found(platform.ada, order, size=2)
        assert sorted(each.id for each in episodes) == sorted(made)
        if key is not None:
            values: list[Any] = [key(each) for each in episodes]
            assert values == sorted(values, reverse=True)


async def test_episodes_that_run_come_with_the_newest_and_in_no_other_order(
    platform: Platform,
) -> None:
    made = await various(platform)
    newest = await ids(platform.ada)
    assert newest == [made["waiting"], made["failed"], made["called"]]
    by_cost = await found(platform.ada, COST)
    assert {each.id for each in by_cost} == {made["failed"], made["called"]}


async def test_a_token_continues_its_own_list_alone(platform: Platform) -> None:
    for _ in range(3):
        await played(platform, answer("42"))
    request = pb.ListEpisodesRequest(page_size=1, order_by=COST)
    token = (await platform.ada.ListEpisodes(request)).next_page_token
    for other in (
        pb.ListEpisodesRequest(page_token=token),
        pb.ListEpisodesRequest(
            page_token=token, order_by=COST, filter=pb.EpisodeFilter(words="sum")
        ),
        pb.ListEpisodesRequest(page_token="e30", order_by=COST),
    ):
        code = await code_of(platform.ada.ListEpisodes(other))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("order", "value"),
    [
        (pb.EPISODE_ORDER_UNSPECIFIED, "2026-01-01T00:00:00"),
        (COST, "NaN"),
        (COST, "1e999999999"),
        (DURATION, "9" * 30),
        (DURATION, "soon"),
    ],
)
async def test_a_token_with_a_value_that_no_episode_has_is_rejected(
    platform: Platform, order: Any, value: str
) -> None:
    request = pb.ListEpisodesRequest(order_by=order)
    request.page_token = position_token(request, PagePosition(value, new_id()))
    code = await code_of(platform.ada.ListEpisodes(request))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_state_given_twice_is_one_state(platform: Platform) -> None:
    await various(platform)
    twice = [episode_pb2.EPISODE_STATE_RUNNING] * 3
    assert await ids(platform.ada, states=twice) == []


async def test_a_summary_has_what_a_table_shows(platform: Platform) -> None:
    task = "Count the words. " + "x" * 1_000
    await played(
        platform, calls(call("search")), answer("42"), task=task, history=[{"role": "user"}]
    )
    request = pb.ListEpisodesRequest(view=pb.EPISODE_VIEW_SUMMARY)
    [episode] = (await platform.ada.ListEpisodes(request)).episodes
    assert episode.spec.task == task[:400]
    assert (episode.answer, list(episode.spec.history)) == ("", [])
    assert list(episode.called_tools) == ["search"]
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert money_from_proto(episode.cost).amount > 0
    assert episode.HasField("end_time")
    [whole] = (await platform.ada.ListEpisodes(pb.ListEpisodesRequest())).episodes
    assert (whole.spec.task, whole.answer) == (task, "42")


async def test_words_find_what_the_reader_may_read(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "bob", Role.DEVELOPER) as bob,
        caller(platform, "eve", Role.AUDITOR) as eve,
    ):
        secret = (await start(ada, "the merger with Globex")).id
        assert await ids(ada, words="globex") == await ids(bob, words="globex") == [secret]
        assert await ids(eve, words="globex") == []
        assert await ids(eve, words="globex", subjects=["ada"]) == []
        [seen] = await found(eve)
        summary = pb.ListEpisodesRequest(view=pb.EPISODE_VIEW_SUMMARY)
        [short] = (await eve.ListEpisodes(summary)).episodes
        assert seen.spec.task == short.spec.task == ""
        counted = pb.SummarizeEpisodesRequest(filter=pb.EpisodeFilter(words="globex"))
        assert (await eve.SummarizeEpisodes(counted)).count == 0


async def test_counts_tell_what_episodes_have_in_common_and_when_they_began(
    platform: Platform,
) -> None:
    await various(platform)
    request = pb.SummarizeEpisodesRequest(bucket=Duration(seconds=86_400))
    counts = await platform.ada.SummarizeEpisodes(request)
    assert counts.count == 3
    values = {(each.field, each.value): each.count for each in counts.facets}
    assert values["stop_reasons", "STOP_REASON_ANSWERED"] == 2
    assert values["tool_names", "search"] == values["tool_names", "calculator"] == 1
    assert values["failure_kinds", "FAILURE_KIND_TOOL_ERROR"] == 1
    assert values["subjects", "ada"] == 2
    by_reason = {each.stop_reason: each.count for each in counts.series}
    assert by_reason == {
        episode_pb2.STOP_REASON_ANSWERED: 2,
        episode_pb2.STOP_REASON_UNSPECIFIED: 1,
    }
    listed = await found(platform.ada, COST)
    total = sum((money_from_proto(each.cost).amount for each in listed), Decimal(0))
    charged = [each.cost for each in counts.series if each.HasField("cost")]
    assert {each.currency_code for each in charged} == {"USD"}
    assert sum(money_from_proto(each).amount for each in charged) == total
    only = pb.SummarizeEpisodesRequest(filter=pb.EpisodeFilter(tool_names=["search"]))
    narrowed = await platform.ada.SummarizeEpisodes(only)
    assert (narrowed.count, list(narrowed.series)) == (1, [])


async def test_another_tenant_finds_and_counts_nothing(platform: Platform) -> None:
    await played(platform, answer("42"))
    async with platform.client("rival") as rival:
        assert await found(rival) == await found(rival, COST) == []
        counts = await rival.SummarizeEpisodes(pb.SummarizeEpisodesRequest())
    assert (counts.count, list(counts.facets)) == (0, [])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"states": [99]}, "filter.states holds 99"),
        ({"stop_reasons": [99]}, "stop_reasons holds 99"),
        ({"parent_episode_id": "x"}, "is no id"),
        ({"min_cost": "1e9"}, "a decimal like 0.01"),
    ],
)
async def test_a_wrong_filter_is_named(
    platform: Platform, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=words) as rejected:
        await found(platform.ada, **wanted)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_search_that_holds_the_database_ends_with_advice(platform: Platform) -> None:
    connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE episode_facts IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(grpc.aio.AioRpcError, match="narrow the time") as rejected:
                await platform.ada.ListEpisodes(pb.ListEpisodesRequest())
    finally:
        await connection.close()
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert await asyncio.wait_for(found(platform.ada), 60) == []


async def test_a_series_counts_the_newest_and_says_from_when_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await played(platform, answer("42"))
    newest = (await found(platform.ada))[0].create_time.ToDatetime(UTC)
    monkeypatch.setattr(store_search, "SERIES_OF", 2)
    engine = open_engine(platform.database_url)
    try:
        search, day = EpisodeSearch(engine), timedelta(days=1)
        cut = await search.count(platform.tenant, EpisodeFilter(), day)
        whole = await search.count(platform.tenant, EpisodeFilter(start_time=newest), day)
    finally:
        await engine.dispose()
    assert cut.count == sum(each.count for each in cut.series) == 3
    assert cut.series_start_time is not None
    assert cut.series_start_time < newest
    assert (sum(each.count for each in whole.series), whole.series_start_time) == (1, None)

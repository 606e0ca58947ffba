from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import psutil
import pytest

from callers import client_channel, code_of, make_identity
from integration.episodes.neighbours import (
    answer,
    call,
    calls,
    in_turns,
    make_toolset,
)
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    new_id,
    start,
    until_asked,
)
from integration.episodes.test_children import child_id, with_researcher
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceStub
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.identity import ROLE_SCOPES, Role, Scope

if TYPE_CHECKING:
    from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceAsyncStub
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


def pays(platform: Platform, self_approval: bool = False) -> None:
    toolset = make_toolset("pay", needs_approval=True)
    toolset.self_approval = self_approval
    platform.neighbours.registry.toolset = toolset
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))


async def decide(client: "EpisodeServiceAsyncStub", episode_id: str, approved: bool) -> None:
    await client.ApproveToolCall(
        pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=approved)
    )


async def decision_of(
    client: "EpisodeServiceAsyncStub", episode_id: str
) -> trajectory_pb2.ApprovalDecision:
    await finished(client, episode_id)
    reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return reply.trajectory.turns[0].tool_invocations[0].approval


async def asked(client: "EpisodeServiceAsyncStub") -> episode_pb2.Episode:
    episode = await start(client)
    await until_asked(client, episode.id)
    return episode


async def test_the_starter_is_rejected_and_somebody_else_approves(platform: Platform) -> None:
    pays(platform)
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        episode = await asked(ada)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await decide(ada, episode.id, approved=True)
        assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "a second person approves" in (rejected.value.details() or "")
        await decide(boss, episode.id, approved=True)
        made = await decision_of(ada, episode.id)
    assert (made.approved, made.actor) == (True, "boss")


@pytest.mark.parametrize(
    ("starter", "approver"),
    [
        (("ada", ()), ("boss", ("creator:ada",))),
        (("robot", ("creator:ada",)), ("ada", ())),
        (("robot", ("creator:ada",)), ("boss", ("creator:ada",))),
        (("robot", ("creator:bob", "creator:ada")), ("boss", ("role:approver", "creator:ada"))),
    ],
    ids=["created by the starter", "by its creator", "both by one", "one of several"],
)
async def test_the_creator_of_a_key_is_the_same_person_as_its_subject(
    platform: Platform,
    starter: tuple[str, tuple[str, ...]],
    approver: tuple[str, tuple[str, ...]],
) -> None:
    pays(platform)
    async with (
        platform.client(subject=starter[0], groups=starter[1]) as one,
        platform.client(subject=approver[0], groups=approver[1]) as same,
        platform.client(subject="carol", groups=("creator:operator",)) as second,
    ):
        episode = await asked(one)
        with pytest.raises(grpc.aio.AioRpcError, match="a second person") as rejected:
            await decide(same, episode.id, approved=True)
        assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await decide(second, episode.id, approved=True)
        assert (await decision_of(one, episode.id)).actor == "carol"


async def test_the_starter_may_deny(platform: Platform) -> None:
    pays(platform)
    episode = await asked(platform.ada)
    await decide(platform.ada, episode.id, approved=False)
    made = await decision_of(platform.ada, episode.id)
    assert (made.approved, made.actor) == (False, "ada")


async def test_a_policy_may_let_the_starter_approve(platform: Platform) -> None:
    pays(platform, self_approval=True)
    episode = await asked(platform.ada)
    await decide(platform.ada, episode.id, approved=True)
    made = await decision_of(platform.ada, episode.id)
    assert (made.approved, made.actor) == (True, "ada")


async def test_only_a_call_that_was_asked_about_is_decided(platform: Platform) -> None:
    pays(platform)
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        episode = await asked(ada)
        assert (
            await code_of(
                boss.ApproveToolCall(
                    pb.ApproveToolCallRequest(
                        episode_id=episode.id, turn=1, call_index=1, approved=True
                    )
                )
            )
            is grpc.StatusCode.FAILED_PRECONDITION
        )
        await decide(boss, episode.id, approved=True)
        assert (await decision_of(ada, episode.id)).approved


@pytest.mark.chaos
async def test_a_decision_while_temporal_stalls_is_answered_in_time_and_counts_once(
    own_platform: Platform, temporal: EmbeddedTemporal
) -> None:
    pays(own_platform)
    process = psutil.Process(temporal.process.pid)
    async with own_platform.client() as ada, own_platform.client(subject="boss") as boss:
        episode = await asked(ada)
        process.suspend()
        try:
            with pytest.raises(grpc.aio.AioRpcError) as stalled:
                await decide(boss, episode.id, approved=True)
        finally:
            process.resume()
        assert stalled.value.code() is grpc.StatusCode.UNAVAILABLE
        await decide(boss, episode.id, approved=True)
        assert (await decision_of(ada, episode.id)).actor == "boss"
    assert len(own_platform.neighbours.adapters.requests) == 1


async def listed(client: "EpisodeServiceAsyncStub", size: int = 0) -> list[pb.WaitingApproval]:
    found: list[pb.WaitingApproval] = []
    token = ""
    while True:
        request = pb.ListApprovalsRequest(page_size=size, page_token=token)
        page = await client.ListApprovals(request)
        found += page.approvals
        assert len(page.approvals) <= (size or 50)
        if not (token := page.next_page_token):
            return found


def places(found: list[pb.WaitingApproval]) -> list[tuple[str, int, int]]:
    return [(each.episode_id, each.turn, each.call.index) for each in found]


async def test_the_queue_holds_what_waits_until_it_is_decided(platform: Platform) -> None:
    toolset = make_toolset("pay", needs_approval=True)
    toolset.tools[0].side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    toolset.tools[0].price_per_call.CopyFrom(money_pb2.Money(currency_code="USD", amount="0.05"))
    platform.neighbours.registry.toolset = toolset
    two = calls(call("pay", '{"usd": 1}'), call("pay", '{"usd": 2}', 1))
    platform.neighbours.orchestrator.decide = in_turns(two, answer("paid"))
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        first, second = [await start(ada) for _ in range(2)]
        for episode in (first, second):
            await until_asked(ada, episode.id)
        waiting = await listed(boss, size=1)
        assert places(waiting) == [(one.id, 1, n) for one in (first, second) for n in (0, 1)]
        assert waiting == await listed(boss)
        assert [each.call.arguments_json for each in waiting[:2]] == ['{"usd": 1}', '{"usd": 2}']
        assert {each.started_by for each in waiting} == {"ada"}
        assert {each.task for each in waiting} == {first.spec.task}
        assert {(each.price.amount, each.side_effect) for each in waiting} == {
            ("0.05", tool_pb2.SIDE_EFFECT_EFFECTFUL)
        }
        assert {each.policy_name for each in waiting} == {"balanced"}
        assert all(
            each.approvable and each.expire_time.seconds > each.create_time.seconds
            for each in waiting
        )
        assert not any(each.approvable for each in await listed(ada))
        # Another tenant has a queue of its own.
        async with platform.client(tenant="umbrella") as stranger:
            assert await listed(stranger) == []
        # The first call is decided; its turn still waits for the other one.
        for index, approved in ((1, True), (0, False)):
            decision = pb.ApproveToolCallRequest(
                episode_id=first.id, turn=1, call_index=index, approved=approved
            )
            await boss.ApproveToolCall(decision)
            left = [(first.id, 1, 0)] * index + [(second.id, 1, 0), (second.id, 1, 1)]
            assert places(await listed(boss)) == left
        await finished(ada, first.id)
        await ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=second.id))
        await finished(ada, second.id)
        assert await listed(boss) == []


async def test_the_queue_marks_what_the_creator_of_the_starters_key_may_not_approve(
    platform: Platform,
) -> None:
    pays(platform)
    async with (
        platform.client(groups=("creator:boss",)) as ada,
        platform.client(subject="boss") as boss,
        platform.client(subject="carol", groups=("creator:boss",)) as carol,
        platform.client(subject="dan") as dan,
    ):
        episode = await start(ada)
        await until_asked(ada, episode.id)
        for approver, approvable in ((boss, False), (carol, False), (dan, True)):
            assert [each.approvable for each in await listed(approver)] == [approvable]
        await ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        await finished(ada, episode.id)


async def test_the_queue_is_for_approvers(platform: Platform) -> None:
    for scope, admitted in ((Scope.EPISODES_RUN, False), (Scope.CALLS_APPROVE, True)):
        identity = make_identity(platform.tenant, "dan", (scope,))
        async with client_channel(platform.port, identity, platform.keys) as channel:
            asked = EpisodeServiceStub(channel).ListApprovals(pb.ListApprovalsRequest())
            if admitted:
                await asked
                continue
            assert await code_of(asked) is grpc.StatusCode.PERMISSION_DENIED


DEVELOPER = (Scope.EPISODES_RUN, Scope.TRAJECTORIES_READ)
MEMBER = ("team:search", "team:ads", "agent:bot", "role:developer", "key:k1")


@asynccontextmanager
async def stubs(
    platform: Platform, groups: Iterable[str] = MEMBER
) -> AsyncIterator[tuple["EpisodeServiceAsyncStub", "DirectCallServiceAsyncStub"]]:
    identity = make_identity(platform.tenant, "mallory", DEVELOPER, groups)
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield EpisodeServiceStub(channel), DirectCallServiceStub(channel)


@pytest.mark.parametrize(
    ("labels", "reported"),
    [
        ({}, ("ads", "bot")),
        ({"team": "search"}, ("search", "bot")),
        ({"agent": "bot", "team": ""}, ("ads", "bot")),
    ],
)
async def test_all_teams_and_agents_of_a_key_are_charged(
    platform: Platform, labels: dict[str, str], reported: tuple[str, str]
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("search")), answer("x"))
    async with stubs(platform) as (episodes, direct):
        await finished(episodes, (await start(episodes, labels=labels)).id)
        platform.neighbours.registry.toolset = make_toolset("search")
        spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json="{}", labels=labels)
        call_id = new_id()
        await direct.StartDirectCall(calls_pb.StartDirectCallRequest(call_id=call_id, spec=spec))
        request = calls_pb.GetDirectCallRequest(call_id=call_id, wait=True)
        while not (await direct.GetDirectCall(request)).call.ended:
            pass
    asked = list(platform.neighbours.ledger.holds.values())
    assert len(asked) == 4
    for reserve in asked:
        assert (reserve.subject.team, reserve.subject.agent) == reported
        assert reserve.subject.user == "mallory"
        assert (list(reserve.teams), list(reserve.agents)) == (["ads", "search"], ["bot"])
        assert list(reserve.keys) == ["k1"]


@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        (MEMBER, {"team": "research"}),
        (MEMBER, {"agent": "other"}),
        ((), {"team": "research"}),
        (("agent:research", "role:research"), {"team": "research"}),
        (("team:search",), {"team": "Search"}),
        (("team:search",), {"team": "search "}),
    ],
)
async def test_a_label_of_another_team_or_agent_is_rejected(
    platform: Platform, groups: Iterable[str], labels: dict[str, str]
) -> None:
    spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json="{}", labels=labels)
    request = calls_pb.StartDirectCallRequest(call_id=new_id(), spec=spec)
    async with stubs(platform, groups) as (episodes, direct):
        for starting in (start(episodes, labels=labels), direct.StartDirectCall(request)):
            with pytest.raises(grpc.aio.AioRpcError, match="and your key or token has") as denied:
                await starting
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not platform.neighbours.ledger.holds


async def test_an_id_of_another_tenant_is_not_found_when_it_is_started(platform: Platform) -> None:
    other = platform.for_new_tenant()
    async with platform.client() as ours, other.client() as theirs:
        episode = await start(ours)
        spec = (await ours.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))).episode.spec
        for task in (spec.task, "another task"):
            spec.task = task
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await theirs.StartEpisode(pb.StartEpisodeRequest(episode_id=episode.id, spec=spec))
            with pytest.raises(grpc.aio.AioRpcError) as absent:
                await theirs.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))
            assert unknown.value.code() is absent.value.code() is grpc.StatusCode.NOT_FOUND
            assert unknown.value.details() == absent.value.details()
        await finished(ours, episode.id)


async def test_a_team_that_is_bound_while_its_episodes_run_is_bound_and_nobody_else(
    platform: Platform,
) -> None:
    platform.neighbours.policies.bound = {"team:search"}
    platform.neighbours.orchestrator.decide = in_turns(calls(call("search")), answer("done"))
    async with (
        platform.client(groups=["team:search", "role:developer"]) as bound,
        platform.client(groups=["team:ads", "role:developer"]) as free,
    ):
        # The same call of the same tenant and subject, within what a worker remembers.
        episodes = [await start(client) for client in (free, bound, free, bound)]
        for episode in episodes:
            await finished(free, episode.id)
    for episode, rejected in zip(episodes, (False, True, False, True), strict=True):
        [made] = (await platform.trajectory(episode.id)).turns[0].tool_invocations
        kinds = [made.observation.failure.kind] if rejected else []
        assert kinds == [failure_pb2.FAILURE_KIND_DENIED_BY_POLICY] * rejected
        assert made.observation.HasField("failure") is rejected


async def test_an_orchestrator_that_is_called_as_a_tool_is_bound_like_its_caller(
    platform: Platform,
) -> None:
    with_researcher(platform)
    policies = platform.neighbours.policies
    async with platform.client(groups=["team:search"]) as client:
        free = await finished(client, (await start(client)).id)
        below = await platform.trajectory(child_id(free.id))
        assert not below.turns[0].tool_invocations[0].observation.HasField("failure")
    # Of the parent's call and of the child's.
    assert policies.callers == [frozenset({"team:search"})] * 2


TASK = "how ill is the patient?"
ANSWER = "very"
SECRET = '{"to": "the patient"}'


@asynccontextmanager
async def channel_of(
    platform: Platform, subject: str, role: Role
) -> AsyncIterator[grpc.aio.Channel]:
    identity = make_identity(platform.tenant, subject, ROLE_SCOPES[role])
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield channel


@asynccontextmanager
async def caller(
    platform: Platform, subject: str, role: Role
) -> AsyncIterator["EpisodeServiceAsyncStub"]:
    async with channel_of(platform, subject, role) as channel:
        yield EpisodeServiceStub(channel)


async def rejected(asked: Awaitable[Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="trajectories:read") as error:
        await asked
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("role", [Role.TOOL_OWNER, Role.APPROVER, Role.AUDITOR])
async def test_a_colleague_without_the_scope_reads_the_metadata_alone(
    platform: Platform, role: Role
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", role) as eve,
    ):
        episode = await start(ada, TASK)
        await finished(ada, episode.id)
        told = pb.GiveFeedbackRequest(episode_id=episode.id, id="f", comment=TASK)
        await ada.GiveFeedback(told)
        got = (await eve.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))).episode
        listed = (await eve.ListEpisodes(pb.ListEpisodesRequest())).episodes
        for seen in (got, *listed):
            assert TASK not in str(seen)
            assert (seen.id, seen.answer, seen.content_withheld) == (episode.id, "", True)
            assert seen.stop_reason == episode_pb2.STOP_REASON_ANSWERED
        own = pb.ListEpisodesRequest(filter=pb.EpisodeFilter(own=True))
        assert not (await eve.ListEpisodes(own)).episodes
        assert [each.id for each in (await ada.ListEpisodes(own)).episodes] == [episode.id]
        watched = eve.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id))
        events = await _read(watched, "finished")
        assert all(event.content_withheld for event in events)
        assert not any(text in str(event) for text in (TASK, ANSWER) for event in events)
        [decided] = [each for each in events if each.HasField("action_decided")]
        assert decided.action_decided.HasField("latency")
        await rejected(eve.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id)))


async def test_the_starter_and_a_developer_read_all_of_it(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "bob", Role.DEVELOPER) as bob,
    ):
        episode = await start(ada, TASK)
        for reader in (ada, bob):
            assert (await finished(reader, episode.id)).answer == ANSWER
            request = pb.GetEpisodeRequest(episode_id=episode.id)
            got = (await reader.GetEpisode(request)).episode
            listed = (await reader.ListEpisodes(pb.ListEpisodesRequest())).episodes
            for seen in (got, *listed):
                assert (seen.spec.task, seen.answer) == (TASK, ANSWER)
                assert not seen.content_withheld


async def test_what_a_cancel_returns_has_no_content(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        reply = await eve.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        await finished(ada, episode.id)
    assert TASK not in str(reply.episode)
    assert reply.episode.content_withheld


async def test_the_same_start_by_another_subject_reveals_nothing(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        await finished(ada, episode.id)
        for guess in (TASK, "how well is the patient?"):
            spec = episode_pb2.EpisodeSpec(task=guess)
            request = pb.StartEpisodeRequest(episode_id=episode.id, spec=spec)
            await rejected(eve.StartEpisode(request))


async def test_another_subjects_calls_are_not_answered(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        request = pb.AnswerToolCallsRequest(episode_id=episode.id, turn=1)
        await rejected(eve.AnswerToolCalls(request))
        await finished(ada, episode.id)


async def test_an_approver_reads_an_episode_while_a_call_of_it_waits(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay", SECRET)), answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "boss", Role.APPROVER) as boss,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        async for response in ada.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id)):
            if response.event.HasField("approval_requested"):
                break
        get = pb.GetEpisodeRequest(episode_id=episode.id)
        watch = pb.WatchEpisodeRequest(episode_id=episode.id)
        assert (await eve.GetEpisode(get)).episode.content_withheld
        seen = await _read(eve.WatchEpisode(watch), "approval_requested")
        assert all(event.content_withheld for event in seen)
        assert seen[-1].approval_requested.call.tool_name == "pay"
        assert SECRET not in str(seen)
        assert (await boss.GetEpisode(get)).episode.spec.task == TASK
        watched = boss.WatchEpisode(watch)
        seen = await _read(watched, "approval_requested")
        assert seen[-1].approval_requested.call.arguments_json == SECRET
        decision = pb.ApproveToolCallRequest(episode_id=episode.id, turn=1, approved=True)
        assert (await boss.ApproveToolCall(decision)).episode.spec.task == TASK
        # What the call gives is none of the approver's business.
        rest = await _read(watched, "finished")
        assert all(event.content_withheld for event in rest)
        assert ANSWER not in str(rest) and SECRET not in str(rest)
        assert (await finished(ada, episode.id)).answer == ANSWER
        assert (await boss.GetEpisode(get)).episode.content_withheld
        assert ANSWER not in str(await _read(boss.WatchEpisode(watch), "finished"))


async def _read(watched: Any, until: str) -> list[episode_pb2.EpisodeEvent]:
    seen = []
    async for response in watched:
        seen.append(response.event)
        if response.event.HasField(until):
            break
    return seen


async def test_direct_calls_are_read_by_their_callers_and_with_the_scope(
    platform: Platform,
) -> None:
    platform.neighbours.registry.toolset = make_toolset("search")
    spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json='{"q": "the patient"}')
    started = calls_pb.StartDirectCallRequest(call_id=new_id(), spec=spec)
    get = calls_pb.GetDirectCallRequest(call_id=started.call_id, wait=True)
    async with (
        channel_of(platform, "ada", Role.TOOL_OWNER) as ada,
        channel_of(platform, "eve", Role.TOOL_OWNER) as eve,
        channel_of(platform, "bob", Role.DEVELOPER) as bob,
    ):
        await DirectCallServiceStub(ada).StartDirectCall(started)
        while not (await DirectCallServiceStub(ada).GetDirectCall(get)).call.ended:
            pass
        assert (await DirectCallServiceStub(bob).GetDirectCall(get)).call.spec == spec
        await rejected(DirectCallServiceStub(eve).GetDirectCall(get))
        await rejected(DirectCallServiceStub(eve).StartDirectCall(started))

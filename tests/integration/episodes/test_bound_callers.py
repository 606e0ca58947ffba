from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.test_children import child_id, trajectory, with_researcher
from podium.common.v1 import failure_pb2


async def test_a_team_that_is_bound_while_its_episodes_run_is_bound_and_nobody_else(
    platform: EpisodesPlatform,
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
        [made] = (await trajectory(platform, episode.id)).turns[0].tool_invocations
        kinds = [made.observation.failure.kind] if rejected else []
        assert kinds == [failure_pb2.FAILURE_KIND_DENIED_BY_POLICY] * rejected
        assert made.observation.HasField("failure") is rejected


async def test_an_orchestrator_that_is_called_as_a_tool_is_bound_like_its_caller(
    platform: EpisodesPlatform,
) -> None:
    with_researcher(platform)
    policies = platform.neighbours.policies
    async with platform.client(groups=["team:search"]) as client:
        free = await finished(client, (await start(client)).id)
        below = await trajectory(platform, child_id(free.id))
        assert not below.turns[0].tool_invocations[0].observation.HasField("failure")
    # Of the parent's call and of the child's.
    assert policies.callers == [frozenset({"team:search"})] * 2

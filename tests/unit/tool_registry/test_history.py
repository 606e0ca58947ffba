"""Past episodes as policies are tried and reported by them, and descriptions written from them."""

from datetime import UTC, datetime
from typing import Any

import grpc

from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from tool_registry.history.adherence import AdherenceReport
from tool_registry.history.clients import EpisodeHistory
from tool_registry.history.dry_run import dry_run
from tool_registry.history.past_episodes import Selection
from tool_registry.toolsets.resolver import CallDecision

ALL = ("unchecked", "right", "wrong", "unjudged")


class Past(rpc.EpisodeServiceServicer):
    """Four episodes that answered: without a check, right with consent, wrong, and unjudged."""

    async def ListEpisodes(
        self, request: pb.ListEpisodesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ListEpisodesResponse:
        consenting = ("right",)
        names = consenting if request.filter.training_consent else ALL
        return pb.ListEpisodesResponse(episodes=[episode_pb2.Episode(id=name) for name in names])

    async def GetTrajectory(
        self, request: pb.GetTrajectoryRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetTrajectoryResponse:
        scores = {"right": 1.0, "wrong": 0.0}
        found = trajectory_pb2.Trajectory(
            episode_id=request.episode_id,
            stop_reason=episode_pb2.STOP_REASON_ANSWERED,
            unjudged_reason="the judges tied" if request.episode_id == "unjudged" else "",
        )
        turn = found.turns.add()
        for model in ("small", *(["large"] if request.episode_id == "wrong" else [])):
            made = turn.tool_invocations.add(model=model)
            made.observation.call.tool_name = "experts"
            made.latency.FromSeconds(1)
        if request.episode_id in scores:
            found.outcomes.add(verifier="llm", score=scores[request.episode_id])
        return pb.GetTrajectoryResponse(trajectory=found)


async def test_an_unjudged_episode_is_neither_a_success_nor_a_failure_of_the_past() -> None:
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(Past(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        since = datetime(2026, 1, 1, tzinfo=UTC)
        history = EpisodeHistory(channel)
        all_of_them = await history.select(Selection(since, 10))
        verified = await history.select(Selection(since, 10, verified=True))
        called = Selection(since, 10, tool_name="experts", model_alias="large", verified=True)
        of_large = await history.select(called)
        learnt_from = await history.select(Selection(since, 10, consenting=True))
    await server.stop(None)
    # Policies are tried and reported by these; descriptions are written from the verified alone.
    found = {each.id: (each.answered, each.right) for each in all_of_them}
    assert found == {
        "unchecked": (True, None),
        "right": (True, True),
        "wrong": (True, False),
        "unjudged": (None, None),
    }
    assert [each.id for each in verified] == ["right", "wrong"]
    assert [each.id for each in of_large] == ["wrong"]
    assert [each.id for each in learnt_from] == ["right"]
    run = dry_run(all_of_them, lambda call: CallDecision(True, "", needs_approval=False))
    assert (run.episode_count, run.solved_episode_count) == (4, 2)
    report = AdherenceReport(all_of_them, "", answered_is_solved=True)
    [scores] = report.policies(all_of_them)
    assert scores.without_outcome == 1

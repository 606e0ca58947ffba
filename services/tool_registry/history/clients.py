import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping

import grpc

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, feedback_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.rpc.errors import FailedPrecondition, NotFound
from podium_kit.rpc.status import answered, domain_error_from
from podium_kit.wire import duration_from_proto, optional_money_from_proto, timestamp_to_proto
from tool_registry.history.past_episodes import PastCall, PastEpisode, Selection
from tool_registry.policies.convert import preferences_from_proto
from tool_registry.ranking.experience import Answered

PAGE_SIZE = 200
# Trajectories hold every token: so many are in memory at once.
AT_ONCE = 8
SOLVED = 1.0
# Of ended episodes that no one has read; the rest comes with the next round.
UNREAD_MAX = 20
WATCH_S = 10.0
# Read for one verified episode: most may be unverified, and each is read whole.
READ_PER_VERIFIED = 10
# Ask the writer, once more when that failed, and say so.
WRITING_TURNS_MAX = 3


class EpisodeHistory:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = EpisodeServiceStub(channel)

    async def select(self, selection: Selection) -> list[PastEpisode]:
        found: list[PastEpisode] = []
        batch: list[str] = []
        read = 0
        async for episode_id in self._ids(selection):
            if selection.verified and read == selection.limit * READ_PER_VERIFIED:
                break
            read += 1
            batch.append(episode_id)
            if len(batch) == AT_ONCE:
                found += await self._read(batch, selection)
                batch = []
            if len(found) >= selection.limit:
                break
        else:
            found += await self._read(batch, selection)
        return found[: selection.limit]

    async def answered(self, known: Mapping[str, Answered]) -> dict[str, Answered]:
        """The tasks of the newest page of episodes with consent to training, by episode.

        Raises Unavailable and its like.
        """
        request = pb.ListEpisodesRequest(
            filter=pb.EpisodeFilter(
                states=[episode_pb2.EPISODE_STATE_FINISHED], training_consent=True
            ),
            page_size=PAGE_SIZE,
        )
        page = await answered(self._stub.ListEpisodes(request))
        used = [
            episode
            for episode in page.episodes
            if episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED and episode.tool_call_count
        ]
        unread = [
            episode
            for episode in used
            # Others read what this caller may not.
            if episode.id not in known and not episode.content_withheld
        ][:UNREAD_MAX]
        tools = await asyncio.gather(*(self._tools(episode.id) for episode in unread))
        read = {
            episode.id: Answered(episode.spec.task, found)
            for episode, found in zip(unread, tools, strict=True)
        }
        found = {**known, **read}
        return {episode.id: found[episode.id] for episode in used if episode.id in found}

    async def _tools(self, episode_id: str) -> frozenset[str]:
        """The tools with results; none of an answer that its verifier rejected or left unjudged."""
        tools: set[str] = set()
        request = pb.WatchEpisodeRequest(episode_id=episode_id)
        try:
            async for response in self._stub.WatchEpisode(request, timeout=WATCH_S):
                event = response.event
                observation = event.tool_returned.observation
                if event.HasField("tool_returned") and observation.failure == failure_pb2.Failure():
                    tools.add(observation.call.tool_name)
                elif event.HasField("judged") and not _is_solved(event.judged):
                    return frozenset()
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error
        return frozenset(tools)

    async def start(self, episode_id: str, task: str, tool_name: str) -> None:
        spec = episode_pb2.EpisodeSpec(
            task=task, tool_names=[tool_name], turn_limit=WRITING_TURNS_MAX
        )
        await answered(
            self._stub.StartEpisode(pb.StartEpisodeRequest(episode_id=episode_id, spec=spec))
        )

    async def written(self, episode_id: str, tool_name: str) -> str | None:
        """Returns the tool's last text; None while the episode runs, empty when there is none."""
        request = pb.GetTrajectoryRequest(episode_id=episode_id)
        try:
            reply = await answered(self._stub.GetTrajectory(request))
        except FailedPrecondition:
            return None
        except NotFound:
            return ""
        texts = [
            made.observation.content
            for turn in reply.trajectory.turns
            for made in turn.tool_invocations
            if made.observation.call.tool_name == tool_name and made.observation.content
        ]
        return texts[-1].strip() if texts else ""

    async def _ids(self, selection: Selection) -> AsyncIterator[str]:
        token = ""
        wanted = pb.EpisodeFilter(
            states=[episode_pb2.EPISODE_STATE_FINISHED],
            policies=sorted(selection.policies),
            start_time=timestamp_to_proto(selection.since),
            tool_names=[selection.tool_name] if selection.tool_name else (),
            training_consent=selection.consenting,
        )
        while True:
            request = pb.ListEpisodesRequest(filter=wanted, page_size=PAGE_SIZE, page_token=token)
            page = await answered(self._stub.ListEpisodes(request))
            for episode in page.episodes:
                yield episode.id
            token = page.next_page_token
            if not token:
                return

    async def _read(self, ids: list[str], selection: Selection) -> list[PastEpisode]:
        episodes = await asyncio.gather(*(self._trajectory(each) for each in ids))
        return [
            episode
            for episode in episodes
            if episode is not None
            and (not selection.tool_name or _calls_one(episode, selection))
            and (not selection.verified or episode.right is not None)
        ]

    async def _trajectory(self, episode_id: str) -> PastEpisode | None:
        request = pb.GetTrajectoryRequest(episode_id=episode_id)
        try:
            reply = await answered(self._stub.GetTrajectory(request))
        except NotFound:
            # Its retention ended between the list and now.
            return None
        return _episode(reply.trajectory, reply.feedback)


def _calls_one(episode: PastEpisode, selection: Selection) -> bool:
    if not selection.model_alias:
        return bool(episode.tool_call_counts.get(selection.tool_name))
    wanted = selection.tool_name, selection.model_alias
    return any((call.tool_name, call.model_alias) == wanted for call in episode.calls)


def _is_solved(judgement: check_pb2.Judgement) -> bool:
    return judgement.HasField("score") and judgement.score >= SOLVED


def _episode(
    trajectory: trajectory_pb2.Trajectory, feedback: Iterable[feedback_pb2.Feedback]
) -> PastEpisode:
    counts = trajectory.features.tool_call_counts
    ratings = [each.score for each in feedback if each.HasField("score")]
    scores = [outcome.score for outcome in trajectory.outcomes]
    return PastEpisode(
        id=trajectory.episode_id,
        task_id=trajectory.task_id,
        task=trajectory.task,
        answer=trajectory.answer,
        policy_name=trajectory.policy_name,
        policy_version=trajectory.policy_version,
        preferences=preferences_from_proto(trajectory.preferences),
        tool_call_counts=dict(zip(trajectory.tool_names, counts, strict=True)),
        calls=tuple(_calls(trajectory)),
        cost=None if trajectory.unpriced_call_count else optional_money_from_proto(trajectory.cost),
        latency_s=duration_from_proto(trajectory.latency),
        answered=None
        if trajectory.unjudged_reason
        else trajectory.stop_reason == episode_pb2.STOP_REASON_ANSWERED,
        # Every verifier must be content (paper, section 3.2).
        solved=min(scores) >= SOLVED if scores else None,
        liked=ratings[-1] >= SOLVED if ratings else None,
    )


def _calls(trajectory: trajectory_pb2.Trajectory) -> list[PastCall]:
    return [
        PastCall(
            tool_name=made.observation.call.tool_name,
            tool_version=made.tool_version,
            model_alias=made.model,
            cost=optional_money_from_proto(made.cost),
            failed=made.observation.failure != failure_pb2.Failure(),
        )
        for turn in trajectory.turns
        for made in turn.tool_invocations
        # A call that was rejected was not made, and took no time.
        if made.HasField("latency")
    ]

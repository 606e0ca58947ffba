from collections.abc import AsyncIterator
from datetime import UTC
from typing import Protocol

import grpc

from gateway.a2a_server.models import CONTEXT_LABEL, TaskProgress, TaskRecord
from gateway.clients import answer
from gateway.convert import outcome_from_proto, prior_messages_from_proto, require_content
from gateway.models import PriorMessages
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.rpc.errors import NotFound

STANDINGS = {
    episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{each.name}"): each for each in TaskProgress
}


class Tasks(Protocol):
    async def find(self, task_id: str) -> TaskRecord | None: ...
    async def before(self, context_id: str, task_id: str) -> TaskRecord | None: ...
    async def prior_messages(self, task_id: str) -> PriorMessages: ...


class TasksClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = EpisodeServiceStub(channel)

    async def find(self, task_id: str) -> TaskRecord | None:
        try:
            found = await answer(self._stub.GetEpisode(pb.GetEpisodeRequest(episode_id=task_id)))
        except NotFound:
            return None
        require_content(found.episode)
        return _record(found.episode)

    async def before(self, context_id: str, task_id: str) -> TaskRecord | None:
        """The task of the context before this one. Ids are in the order of their making."""
        async for record in self._of(context_id):
            if record.id < task_id:
                return record
        return None

    async def prior_messages(self, task_id: str) -> PriorMessages:
        found = await answer(self._stub.GetEpisode(pb.GetEpisodeRequest(episode_id=task_id)))
        require_content(found.episode)
        return prior_messages_from_proto(found.episode, "message.contextId")

    async def _of(self, context_id: str) -> AsyncIterator[TaskRecord]:
        # Anybody of the tenant may name a context: a colleague's task is not part of this one.
        request = pb.ListEpisodesRequest(
            filter=pb.EpisodeFilter(labels={CONTEXT_LABEL: context_id}, own=True)
        )
        while True:
            page = await answer(self._stub.ListEpisodes(request))
            for episode in page.episodes:
                yield _record(episode)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def _record(episode: episode_pb2.Episode) -> TaskRecord:
    created = episode.create_time.ToDatetime(UTC)
    ended = episode.HasField("end_time")
    return TaskRecord(
        id=episode.id,
        # Those that were started in other ways are conversations of their own.
        context_id=episode.spec.labels.get(CONTEXT_LABEL) or episode.id,
        task=episode.spec.task,
        standing=STANDINGS[episode.state],
        outcome=outcome_from_proto(episode),
        created=created,
        changed=episode.end_time.ToDatetime(UTC) if ended else created,
    )

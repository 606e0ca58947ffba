from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message

from gateway.clients import answer
from gateway.mcp_server.models import ListedResource, ResourcePage
from podium.adapters.v1 import corpus_service_pb2 as corpora_pb
from podium.adapters.v1.corpus_service_pb2_grpc import CorpusServiceStub
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as episodes_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub

PAGE_SIZE = 50
DOCUMENTS_PER_PAGE = 100
HITS = 10
TITLE_CHARACTERS = 80
WITHHELD = "an episode whose content needs the scope trajectories:read"
Json = dict[str, Any]


class Resources(Protocol):
    async def corpora(self, page_token: str) -> ResourcePage: ...
    async def episodes(self, page_token: str) -> ResourcePage: ...
    async def documents(self, corpus: str, page_token: str) -> Json: ...
    async def hits(self, corpus: str, query: str) -> Json: ...
    async def episode(self, episode_id: str) -> Json: ...
    async def trajectory(self, episode_id: str) -> Json: ...


@dataclass(frozen=True)
class ResourcesClient:
    adapters: grpc.aio.Channel
    episode_service: grpc.aio.Channel

    async def corpora(self, page_token: str) -> ResourcePage:
        request = corpora_pb.ListCorporaRequest(page_size=PAGE_SIZE, page_token=page_token)
        page = await answer(CorpusServiceStub(self.adapters).ListCorpora(request))
        found = tuple(
            ListedResource(each.name, each.name, f"{each.document_count} documents")
            for each in page.corpora
        )
        return ResourcePage(found, page.next_page_token)

    async def episodes(self, page_token: str) -> ResourcePage:
        """Newest first."""
        request = episodes_pb.ListEpisodesRequest(page_size=PAGE_SIZE, page_token=page_token)
        page = await answer(self._episodes.ListEpisodes(request))
        return ResourcePage(tuple(map(_listed, page.episodes)), page.next_page_token)

    async def documents(self, corpus: str, page_token: str) -> Json:
        request = corpora_pb.ListDocumentsRequest(
            corpus=corpus, page_size=DOCUMENTS_PER_PAGE, page_token=page_token
        )
        return await _json(CorpusServiceStub(self.adapters).ListDocuments(request))

    async def hits(self, corpus: str, query: str) -> Json:
        request = corpora_pb.SearchRequest(corpus=corpus, query=query, top_k=HITS)
        return await _json(CorpusServiceStub(self.adapters).Search(request))

    async def episode(self, episode_id: str) -> Json:
        request = episodes_pb.GetEpisodeRequest(episode_id=episode_id)
        return await _json(self._episodes.GetEpisode(request))

    async def trajectory(self, episode_id: str) -> Json:
        request = episodes_pb.GetTrajectoryRequest(episode_id=episode_id)
        return await _json(self._episodes.GetTrajectory(request))

    @property
    def _episodes(self) -> Any:
        return EpisodeServiceStub(self.episode_service)


async def _json(call: Awaitable[Message]) -> Json:
    """The answer under the contract's own names."""
    reply = await answer(call)
    found: Json = json_format.MessageToDict(reply, preserving_proto_field_name=True)
    return found


def _listed(episode: episode_pb2.Episode) -> ListedResource:
    line = WITHHELD if episode.content_withheld else " ".join(episode.spec.task.split())
    title = line if len(line) <= TITLE_CHARACTERS else f"{line[:TITLE_CHARACTERS]}..."
    reason = episode_pb2.StopReason.Name(episode.stop_reason).removeprefix("STOP_REASON_")
    ended = episode.state == episode_pb2.EPISODE_STATE_FINISHED
    return ListedResource(episode.id, title, reason.lower() if ended else "running")

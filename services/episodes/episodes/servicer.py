from collections.abc import AsyncIterator
from typing import Any

import grpc

from episodes.approvals.convert import place_from_token, token_of, waiting_to_proto
from episodes.attachments.checks import own_quota_from_proto
from episodes.episodes.convert import (
    episode_to_proto,
    feedback_from_proto,
    feedback_to_proto,
    watched_to_proto,
)
from episodes.episodes.convert_search import (
    bucket_from_proto,
    counts_to_proto,
    filter_from_proto,
    found_to_proto,
    order_from_proto,
    position_from_proto,
    position_token,
)
from episodes.episodes.feedback import FeedbackGiving
from episodes.episodes.service import Episodes
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import trajectory_pb2
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceServicer
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import page_size

Context = grpc.aio.ServicerContext[Any, Any]


class EpisodesServicer(EpisodeServiceServicer):
    def __init__(self, episodes: Episodes, feedback: FeedbackGiving) -> None:
        self._episodes = episodes
        self._feedback = feedback

    async def StartEpisode(
        self, request: pb.StartEpisodeRequest, context: Context
    ) -> pb.StartEpisodeResponse:
        stored = await self._episodes.start(
            request.episode_id,
            request.spec,
            request.running_limit,
            context.time_remaining(),
            request.attachment_data,
            own_quota=own_quota_from_proto(request.file_quota),
        )
        return pb.StartEpisodeResponse(episode=episode_to_proto(stored))

    async def CountPromptTokens(
        self, request: pb.CountPromptTokensRequest, context: Context
    ) -> pb.CountPromptTokensResponse:
        count = await self._episodes.prompt_tokens(request.spec)
        return pb.CountPromptTokensResponse(token_count=count)

    async def GetEpisode(
        self, request: pb.GetEpisodeRequest, context: Context
    ) -> pb.GetEpisodeResponse:
        stored = await self._episodes.get(request.episode_id)
        episode = episode_to_proto(stored)
        if stored.ending is not None and not episode.content_withheld:
            episode.feedback.extend(map(feedback_to_proto, await self._feedback.of(stored)))
        return pb.GetEpisodeResponse(episode=episode)

    async def ListEpisodes(
        self, request: pb.ListEpisodesRequest, context: Context
    ) -> pb.ListEpisodesResponse:
        page = await self._episodes.find(
            filter_from_proto(request.filter),
            order_from_proto(request.order_by),
            position_from_proto(request),
            page_size(request.page_size, default=50, maximum=500),
        )
        return pb.ListEpisodesResponse(
            episodes=[found_to_proto(each, request.view) for each in page.found],
            next_page_token=position_token(request, page.next),
        )

    async def SummarizeEpisodes(
        self, request: pb.SummarizeEpisodesRequest, context: Context
    ) -> pb.SummarizeEpisodesResponse:
        bucket = bucket_from_proto(request)
        counts = await self._episodes.count(filter_from_proto(request.filter), bucket)
        return counts_to_proto(counts)

    async def WatchEpisode(
        self, request: pb.WatchEpisodeRequest, context: Context
    ) -> AsyncIterator[pb.WatchEpisodeResponse]:
        watch = self._episodes.watch(
            request.episode_id,
            request.after_sequence,
            answer_parts=request.answer_parts,
            end_only=request.end_only,
        )
        async for progress in watch:
            yield watched_to_proto(progress)

    async def CancelEpisode(
        self, request: pb.CancelEpisodeRequest, context: Context
    ) -> pb.CancelEpisodeResponse:
        stored = await self._episodes.cancel(request.episode_id)
        return pb.CancelEpisodeResponse(episode=episode_to_proto(stored))

    async def ApproveToolCall(
        self, request: pb.ApproveToolCallRequest, context: Context
    ) -> pb.ApproveToolCallResponse:
        stored = await self._episodes.approve(
            request.episode_id, request.turn, request.call_index, request.approved, request.reason
        )
        return pb.ApproveToolCallResponse(episode=episode_to_proto(stored))

    async def ListApprovals(
        self, request: pb.ListApprovalsRequest, context: Context
    ) -> pb.ListApprovalsResponse:
        size = page_size(request.page_size, default=50, maximum=500)
        after = place_from_token(request.page_token)
        found, more = await self._episodes.waiting_calls(after, size)
        reader = current_identity()
        return pb.ListApprovalsResponse(
            approvals=[waiting_to_proto(waiting, reader) for waiting in found],
            next_page_token=token_of(found[-1].place) if more else "",
        )

    async def AnswerToolCalls(
        self, request: pb.AnswerToolCallsRequest, context: Context
    ) -> pb.AnswerToolCallsResponse:
        stored = await self._episodes.answer(request)
        return pb.AnswerToolCallsResponse(episode=episode_to_proto(stored))

    async def GiveFeedback(
        self, request: pb.GiveFeedbackRequest, context: Context
    ) -> pb.GiveFeedbackResponse:
        given = feedback_from_proto(request, current_identity().subject)
        stored = await self._episodes.get(request.episode_id)
        stored_feedback = await self._feedback.give(stored, given)
        return pb.GiveFeedbackResponse(feedback=feedback_to_proto(stored_feedback))

    async def GetTrajectory(
        self, request: pb.GetTrajectoryRequest, context: Context
    ) -> pb.GetTrajectoryResponse:
        stored = await self._episodes.get(request.episode_id)
        record = await self._episodes.trajectory(stored)
        message = trajectory_pb2.TrajectoryRecord.FromString(record)
        feedback = map(feedback_to_proto, await self._feedback.of(stored))
        return pb.GetTrajectoryResponse(trajectory=message.trajectory, feedback=feedback)

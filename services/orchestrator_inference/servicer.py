from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc

from orchestrator_inference.convert import decision_to_proto, model_to_proto, situation_from_proto
from orchestrator_inference.pages import page_of
from orchestrator_inference.service import Orchestrator
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as rpc

Context = grpc.aio.ServicerContext[Any, Any]


class OrchestratorServicer(rpc.OrchestratorServiceServicer):
    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator

    async def NextAction(
        self, request: pb.NextActionRequest, context: Context
    ) -> pb.NextActionResponse:
        decision = await self._orchestrator.next_action(situation_from_proto(request))
        return decision_to_proto(decision)

    async def NextActionStreaming(
        self, request: pb.NextActionStreamingRequest, context: Context
    ) -> AsyncIterator[pb.NextActionStreamingResponse]:
        situation = situation_from_proto(request.action)
        async with aclosing(self._orchestrator.next_action_streaming(situation)) as events:
            async for event in events:
                if isinstance(event, str):
                    yield pb.NextActionStreamingResponse(answer_part=event)
                else:
                    yield pb.NextActionStreamingResponse(response=decision_to_proto(event))

    async def CountTokens(
        self, request: pb.CountTokensRequest, context: Context
    ) -> pb.CountTokensResponse:
        situation = situation_from_proto(request.action)
        return pb.CountTokensResponse(token_count=await self._orchestrator.count_tokens(situation))

    async def ListModels(
        self, request: pb.ListModelsRequest, context: Context
    ) -> pb.ListModelsResponse:
        models = await self._orchestrator.models()
        page, next_token = page_of(
            models, lambda model: model.name, request.page_size, request.page_token
        )
        return pb.ListModelsResponse(
            models=[
                model_to_proto(
                    model, self._orchestrator.sku(model), self._orchestrator.prompt_mode(model)
                )
                for model in page
            ],
            next_page_token=next_token,
        )

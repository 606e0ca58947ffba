import asyncio
import base64
import struct
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from gateway.chat.response import cost_json
from gateway.chat.routes import CLIENT_CLOSED_REQUEST
from gateway.chat.runs import MadeVectors, call_error
from gateway.chat.starting import EpisodeStarter, while_connected
from gateway.embeddings.request import EmbeddingRequest
from gateway.errors import CallTooLate
from gateway.models import Vectors
from podium_kit import telemetry

FLOAT_BYTES = 4


def embeddings_response(
    vectors: Vectors, call_id: str, model: str, encoding_format: str
) -> dict[str, Any]:
    readable = _floats if encoding_format == "float" else str
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": readable(packed)}
            for index, packed in enumerate(vectors.packed)
        ],
        "model": model,
        "usage": {"prompt_tokens": vectors.tokens, "total_tokens": vectors.tokens},
        "podium": {
            "call_id": call_id,
            "cost": cost_json(vectors.cost),
            "policy": {"name": vectors.policy_name, "version": vectors.policy_version},
        },
    }


def _floats(packed: str) -> list[float]:
    raw = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(raw) // FLOAT_BYTES}f", raw))


def embeddings_router(starter: EpisodeStarter) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    async def vectors_of(call_id: str, tool: str, made: MadeVectors) -> Vectors:
        try:
            async with asyncio.timeout(starter.wait_s):
                found = await made.vectors()
        except TimeoutError as error:
            raise CallTooLate(call_id, starter.wait_s) from error
        if found.failure is not None:
            raise call_error(tool, call_id, found.failure)
        return found

    @router.post("/embeddings", operation_id="CreateEmbedding", response_model=None)
    async def create_embedding(body: EmbeddingRequest, request: Request) -> Response:
        order = body.order(await starter.catalogue.resolve(body.model))
        starting = starter.episode_ids.starting(request.headers, await request.body())
        async with starting as call:
            with telemetry.episode_context(call.value), telemetry.span("gateway.start_episode"):
                made = await starter.direct_calls.embed(call.value, order)
        found = await while_connected(request, vectors_of(call.value, order.tool, made))
        if found is None:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        answer = embeddings_response(found, call.value, body.model, body.encoding_format)
        return JSONResponse(answer, headers={"x-podium-episode": call.value})

    return router

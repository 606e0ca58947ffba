from typing import Any

import httpx
import pytest

from orchestrator_inference.engine.models import ModelCatalogue
from orchestrator_inference.models import EngineModel


async def listed(card: dict[str, Any], page: httpx.Response) -> EngineModel:
    def answer(request: httpx.Request) -> httpx.Response:
        known = request.url.path == "/v1/models"
        return httpx.Response(200, json={"data": [{"id": "m", **card}]}) if known else page

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(base_url="http://engine/v1/", transport=transport) as client:
        [model] = await ModelCatalogue(client, "", {}).all()
    return model


@pytest.mark.parametrize(
    "page",
    [
        httpx.Response(200, text="<html>Welcome</html>"),
        httpx.Response(200, json=["version"]),
        httpx.Response(200, json={"version": 3, "chat_template": {}}),
        httpx.Response(200, json={}),
        httpx.Response(404),
    ],
)
async def test_a_page_in_the_place_of_vllms_endpoints_says_nothing(page: httpx.Response) -> None:
    model = await listed({"owned_by": "vllm"}, page)
    assert (model.engine, model.is_vllm, model.prompt_digest) == ("vllm", True, "")


@pytest.mark.parametrize(
    ("card", "tokens"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"max_model_len": None, "context_length": 8192}, 8192),
        ({"context_length": "8192"}, 0),
        ({"context_length": -1}, 0),
        ({}, 0),
    ],
)
async def test_a_context_that_is_no_number_is_unknown(card: dict[str, Any], tokens: int) -> None:
    assert (await listed(card, httpx.Response(404))).context_tokens == tokens

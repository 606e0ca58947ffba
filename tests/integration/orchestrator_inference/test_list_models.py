"""ListModels over a real channel."""

from typing import Any

from openai_server import OpenAiServer
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb

TOOLLESS: dict[str, Any] = {"key": "episode/1/model/0", "task": "Say hello."}


async def test_models_come_from_the_engine_in_pages(start_service: Any) -> None:
    with OpenAiServer(models=["c", "a", "b"], vllm_version="0.32.0", context_tokens=99) as engine:
        stub = await start_service(engine.base_url, default_model="b", model_sku="model.b")
        first = await stub.ListModels(pb.ListModelsRequest(page_size=2))
        second = await stub.ListModels(
            pb.ListModelsRequest(page_size=2, page_token=first.next_page_token)
        )
    assert [model.name for model in first.models] == ["a", "b"]
    assert [model.name for model in second.models] == ["c"]
    assert second.next_page_token == ""
    assert [model.sku for model in first.models] == ["", "model.b"]
    assert [model.is_default for model in first.models] == [False, True]
    assert {model.context_tokens for model in first.models} == {99}


async def test_the_first_model_is_the_default_when_none_is_configured(start_service: Any) -> None:
    with OpenAiServer(models=["z", "a"]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(pb.NextActionRequest(**TOOLLESS))
    assert response.model_version == "z"


async def test_an_alias_resolves_to_its_model(start_service: Any) -> None:
    with OpenAiServer(models=["a", "b"]) as engine:
        stub = await start_service(engine.base_url, model_aliases={"best": "b"})
        response = await stub.NextAction(pb.NextActionRequest(model="best", **TOOLLESS))
    assert response.model_version == "b"


async def test_a_model_published_later_is_found_at_once(start_service: Any) -> None:
    with OpenAiServer(models=["a"]) as engine:
        stub = await start_service(engine.base_url)
        await stub.ListModels(pb.ListModelsRequest())
        engine.models.append("a-v2")
        response = await stub.NextAction(pb.NextActionRequest(model="a-v2", **TOOLLESS))
    assert response.model_version == "a-v2"

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from openai_server import OpenAiServer
from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.engine import EnginePool, ModelCall
from orchestrator_inference.engine.merged import MergedEngines
from orchestrator_inference.engine.openai import OpenAiEngine
from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.errors import ModelNotFound
from orchestrator_inference.models import Constraint, Message, Sampling
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.policy_versions import CanaryPrompt
from podium_kit.policy_versions.canary import PROMPTS
from servers.vllm_server import BASE, VllmServer
from unit.podium_training.grpo.builders import make_model

ANY = Constraint({"type": "object"}, '{"type": "object"}', "0" * 64)
BLUE, GREEN = "policy-demo-v1", "policy-demo-v2"


class Names:
    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}

    def look_up(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if not self.addresses.get(host):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (address, port)) for address in self.addresses[host]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    real = socket.getaddrinfo

    def either(host: str, port: int, *rest: Any, **more: Any) -> Any:
        known = host in names.addresses
        return names.look_up(host, port) if known else real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", either)
    return names


@pytest.fixture
def servers() -> Iterator[dict[str, OpenAiServer]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(OpenAiServer(models=[model]))
            for name, model in {
                "base": "base-model",
                "blue": BLUE,
                "green": GREEN,
                "green-2": GREEN,
            }.items()
        }


def url(servers: dict[str, OpenAiServer], name: str) -> str:
    return servers[name].base_url.replace("127.0.0.1", name)


async def test_engines_come_and_go_with_the_addresses_of_their_name(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {"blue": ["127.0.0.1"], "green": []}
    urls = [url(servers, "blue"), url(servers, "green")]
    base = servers["base"].base_url
    async with MergedEngines(urls, None, 10, 4) as merged, engine_client(base, None, 4) as client:
        pool = EnginePool(OpenAiEngine(client, timeout_s=10), merged.engines)
        with pytest.raises(ModelNotFound):
            await pool.model(BLUE)
        assert [each.url for each in await merged.replicas()] == [servers["blue"].base_url]
        assert (await pool.model(BLUE)).name == BLUE
        with pytest.raises(ModelNotFound):
            await pool.model(GREEN)
        names.addresses = {"blue": [], "green": ["127.0.0.1"]}
        await merged.replicas()
        assert (await pool.model(GREEN)).name == GREEN
        with pytest.raises(ModelNotFound):
            await pool.model(BLUE)
        assert [model.name for model in await pool.models()] == ["base-model", GREEN]


async def test_replicas_of_one_version_are_asked_in_turn(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {name: ["127.0.0.1"] for name in ("green", "green-2")}
    urls = [url(servers, name) for name in names.addresses]
    async with (
        MergedEngines(urls, None, 10, 4) as merged,
        engine_client(servers["base"].base_url, None, 4) as client,
    ):
        await merged.replicas()
        pool = EnginePool(OpenAiEngine(client, timeout_s=10), merged.engines)
        for number in range(4):
            model = await pool.model(GREEN)
            message = Message("user", "Who are you?")
            await pool.complete(ModelCall(f"call {number}", model, (message,), Sampling(), ANY))
    assert [len(servers[name].requests) for name in ("base", "green", "green-2")] == [0, 2, 2]


async def test_an_engine_that_is_known_keeps_its_connections(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {"blue": ["127.0.0.1"]}
    async with MergedEngines([url(servers, "blue")], None, 10, 4) as merged:
        (first,) = await merged.replicas()
        await asyncio.gather(first.served(), first.served())
        assert await merged.replicas() == [first]


async def test_a_canary_of_many_tokens_is_asked_in_parts() -> None:
    prompts = [
        CanaryPrompt(
            prompt_ids=(1, 2),
            next_ids=tuple(range(10 * number, 10 * number + 10)),
            logprobs=(-1.0,) * 10,
        )
        for number in range(PROMPTS)
    ]
    with VllmServer(make_model(vocabulary=10 * PROMPTS)) as server:
        async with engine_client(server.base_url, None, 4) as client:
            replica = EngineReplica(client, server.base_url, 60)
            said = await replica.logprobs(BASE, prompts)
            alone = [await replica.logprobs(BASE, [prompt]) for prompt in prompts]
    for row, (by_itself,) in zip(said, alone, strict=True):
        assert row == pytest.approx(by_itself, abs=1e-5)


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

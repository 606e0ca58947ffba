import asyncio

import pytest

from callers import make_identity
from openai_server import OpenAiServer
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import LLM
from tool_adapters.adapter import Output, ToolCall
from tool_adapters.http.client import HttpClient
from tool_adapters.llm.adapter import LlmAdapter
from tool_adapters.llm.prompts import Prompts
from tool_adapters.llm.providers import Providers
from tool_adapters.models import (
    LlmApi,
    LlmConnection,
    LlmModel,
    SideEffect,
    ToolDefinition,
)
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets


def model(base_url: str, api: LlmApi = LlmApi.OPENAI_CHAT) -> LlmModel:
    return LlmModel("eyes", "gpt", base_url, api)


async def test_a_place_at_a_provider_goes_to_the_tenant_that_has_the_fewest() -> None:
    providers, served, ends = Providers(2), [], asyncio.Queue[None]()

    async def ask(tenant: str, base_url: str = "https://api.example.com/v1") -> None:
        async with providers.slot(tenant, model(base_url)):
            served.append(tenant)
            await ends.get()

    # Whichever way a tenant writes the provider's address, its places are the same.
    asked = [asyncio.create_task(ask("busy")) for _ in range(20)]
    asked.append(asyncio.create_task(ask("quiet", "https://API.example.com/v2")))
    asked.append(asyncio.create_task(ask("elsewhere", "https://other.example.com/v1")))
    await asyncio.sleep(0)
    assert served == ["busy", "busy", "elsewhere"]
    for _ in asked:
        ends.put_nowait(None)
    await asyncio.gather(*asked)
    # The first place that became free, though nineteen of the other tenant had asked before.
    assert served[3] == "quiet"
    # Hosts that no one asks any more are not kept.
    assert not providers._places


@pytest.mark.parametrize("api", [LlmApi.OPENAI_CHAT, LlmApi.OPENAI_EMBEDDINGS])
async def test_no_request_is_sent_without_a_place(api: LlmApi) -> None:
    providers, guard = Providers(1), NetworkGuard(allow_private=True)
    call = ToolCall("key", "e1", "eyes", 1, {"input": "42"}, "6 * 7?", "", 0, "acme", "eyes")
    with OpenAiServer(models=("gpt",)) as server, acting_as(make_identity("acme")):
        asked = model(server.base_url, api)
        tool = ToolDefinition(*("eyes", 1, LLM, {}, None, LlmConnection((asked,)), SideEffect.PURE))
        async with HttpClient(guard) as client:
            adapter = LlmAdapter(client, MountedSecrets(None, {}), Prompts(), providers)
            async with providers.slot("acme", asked):
                answering = asyncio.create_task(adapter.invoke(call, tool))
                (places,) = providers._places.values()
                while not places._waiting and not answering.done():
                    await asyncio.sleep(0)
                assert not server.requests
            assert isinstance((await answering).outcome, Output)
    assert len(server.requests) == 1

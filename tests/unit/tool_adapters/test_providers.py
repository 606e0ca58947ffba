"""Requests at one provider: a tenant that sends many does not hold up another."""

import asyncio

from tool_adapters.llm.providers import Providers
from tool_adapters.models import LlmApi, LlmModel


def model(base_url: str) -> LlmModel:
    return LlmModel("eyes", "gpt", base_url, LlmApi.OPENAI_CHAT)


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
    # Hosts that nobody asks any more are not kept.
    assert not providers._places

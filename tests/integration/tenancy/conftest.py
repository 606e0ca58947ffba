"""The whole platform as processes, and what one of its tenants owns."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest_asyncio

from integration.tenancy.two_tenants import CANARY, TwoTenants, own_something
from openai_server import OpenAiServer
from podium_cli.local.engines import EngineChoice
from podium_cli.local.platform import LocalPlatform, PlatformOptions
from temporary_files import server_folder

MODEL = "scripted-model"


def secretive(body: Mapping[str, Any]) -> dict[str, str]:
    """Repeats the owner's secret when the prompt contains it."""
    quoted = CANARY in json.dumps(body["messages"])
    return {"answer": f"42 {CANARY}" if quoted else "42"}


@pytest_asyncio.fixture(scope="session")
async def tenants() -> AsyncIterator[TwoTenants]:
    with (
        server_folder("tenancy") as folder,
        OpenAiServer(script=[secretive], models=[MODEL]) as model,
    ):
        engine = EngineChoice(openai_base_url=model.base_url, model=MODEL)
        options = PlatformOptions(folder / "state", engine, telemetry=False)
        platform = LocalPlatform(options, lambda _step, _done: None)
        await platform.start()
        try:
            yield await own_something(platform)
        finally:
            await platform.stop()

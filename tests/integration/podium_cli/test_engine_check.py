"""A model server that was started a moment ago is waited for."""

import asyncio

from openai_server import OpenAiServer
from podium_kit.embedded.ports import free_port
from podium_operations.local.engines import EngineChoice, check_engine


async def test_a_server_that_does_not_listen_yet_is_asked_again() -> None:
    port = free_port()
    choice = EngineChoice(openai_base_url=f"http://127.0.0.1:{port}/v1", model="scripted-model")
    noted: asyncio.Queue[str] = asyncio.Queue()
    check = asyncio.create_task(check_engine(choice, noted.put_nowait))
    assert f"waiting for the model server at http://127.0.0.1:{port}" in await noted.get()
    with OpenAiServer(port=port):
        await check
    assert noted.empty()

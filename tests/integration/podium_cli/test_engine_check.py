"""A model server that was started a moment ago is waited for."""

import asyncio

from openai_server import OpenAiServer
from podium_cli.local.engine_check import check_engine
from podium_cli.local.engines import EngineChoice
from podium_kit.embedded.ports import free_port


async def test_a_server_that_does_not_listen_yet_is_asked_again() -> None:
    port = free_port()
    choice = EngineChoice(openai_base_url=f"http://127.0.0.1:{port}/v1", model="scripted-model")
    check = asyncio.create_task(check_engine(choice))
    await asyncio.sleep(1)
    assert not check.done()
    with OpenAiServer(port=port):
        await check

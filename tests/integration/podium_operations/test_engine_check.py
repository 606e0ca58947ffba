import asyncio

import pytest

from openai_server import OpenAiServer
from podium_kit.client.errors import UserError
from podium_kit.embedded.ports import free_port
from podium_operations.local import engines
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


async def test_a_server_that_never_listens_is_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "STARTING_S", 1.0)
    choice = EngineChoice(openai_base_url=f"http://127.0.0.1:{free_port()}/v1", model="m")
    with pytest.raises(UserError, match="no model server answered") as raised:
        await check_engine(choice, lambda _: None)
    assert "/v1" in raised.value.fix

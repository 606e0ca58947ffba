from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest_asyncio

from callers import client_channel, make_identity, make_key_pair, write_verify_keys
from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.server import assembled
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as rpc
from podium_kit.rpc.server import running_server

Start = Callable[..., Awaitable[Any]]


@pytest_asyncio.fixture
async def start_service(tmp_path: Path) -> AsyncIterator[Start]:
    pair = make_key_pair()
    keys_file = write_verify_keys(tmp_path / "keys.json", [pair])
    async with AsyncExitStack() as stack:

        async def start(base_url: str, *, identity: Any = None, **changes: Any) -> Any:
            settings = OrchestratorInferenceSettings(
                port=0,
                verify_keys_file=keys_file,
                engine_base_url=base_url,
                drain_grace_s=0,
                **changes,
            )
            served = await stack.enter_async_context(assembled(settings))
            running = running_server(settings, *served)
            port = await stack.enter_async_context(running)
            channel = client_channel(port, identity or make_identity(), pair)
            await stack.enter_async_context(channel)
            return rpc.OrchestratorServiceStub(channel)

        yield start

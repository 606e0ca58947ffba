import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import aiohttp
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.figures import Figures, say
from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from openai_server import OpenAiServer
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.orchestrator.v1.orchestrator_service_pb2_grpc import OrchestratorServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.server import EmbeddedVllm

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.orchestrator.v1.orchestrator_service_pb2_grpc import OrchestratorServiceAsyncStub


MODEL = "smollm2"
IN_FLIGHT = (1, 8, 32)
REQUESTS = {1: 3, 8: 16, 32: 64}
ROUNDS = 2
MAX_TOKENS = 24
TIMEOUT_S = 600.0
TOOL = pb.ToolDefinition(
    name="calculator",
    description="Computes an arithmetic expression, for example 6*7.",
    parameters_json_schema='{"type": "object", "properties": {"expression": {"type": "string"}},'
    ' "required": ["expression"]}',
)
Ask = Callable[[int], Awaitable[int]]


async def measure_inference(figures: Figures) -> None:
    say("inference: starting vLLM")
    with TemporaryDirectory(prefix="podium-bench-") as name:
        folder = Path(name)
        bodies = await _bodies(folder, max(REQUESTS.values()))
        vllm = EmbeddedVllm(SmolLM2().directory, MODEL, free_port(), log_path=folder / "vllm.log")
        await vllm.start()
        try:
            async with _service(folder, vllm.base_url) as stub, aiohttp.ClientSession() as session:
                await _compare(figures, _through(stub), _direct(session, vllm.base_url, bodies))
        finally:
            await vllm.stop()


async def _compare(figures: Figures, ours: Ask, direct: Ask) -> None:
    for in_flight in IN_FLIGHT:
        speeds: dict[str, list[float]] = {"direct": [], "ours": []}
        for ask in (direct, ours):
            await _tokens_per_s(ask, in_flight)
        for _ in range(ROUNDS):
            # LeasedRow in turns, so that both meet the same noise.
            speeds["direct"].append(await _tokens_per_s(direct, in_flight))
            speeds["ours"].append(await _tokens_per_s(ours, in_flight))
        for name, values in speeds.items():
            figures.note(f"inference.{name}_tokens_per_s_at_{in_flight}", round(median(values), 1))
        ratio = median(speeds["ours"]) / median(speeds["direct"])
        figures.ratio(f"inference.throughput_at_{in_flight}", ratio, ">=", 0.95)


async def _tokens_per_s(ask: Ask, in_flight: int) -> float:
    gate = asyncio.Semaphore(in_flight)

    async def one(number: int) -> int:
        async with gate:
            return await ask(number)

    started = time.perf_counter()
    tokens = await asyncio.gather(*(one(number) for number in range(REQUESTS[in_flight])))
    return sum(tokens) / (time.perf_counter() - started)


def _request(number: int) -> pb.NextActionRequest:
    return pb.NextActionRequest(
        key=f"bench/{number}/model/0",
        task=f"What is {number} times {number + 7}?",
        tools=[TOOL],
        sampling=pb.Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
    )


def _through(stub: "OrchestratorServiceAsyncStub") -> Ask:
    async def ask(number: int) -> int:
        reply = await stub.NextAction(_request(number), timeout=TIMEOUT_S)
        return len(reply.completion_token_ids)

    return ask


def _direct(session: aiohttp.ClientSession, base_url: str, bodies: list[dict[str, Any]]) -> Ask:
    async def ask(number: int) -> int:
        async with session.post(f"{base_url}/chat/completions", json=bodies[number]) as response:
            reply = await response.json()
        return len(reply["choices"][0]["token_ids"])

    return ask


async def _bodies(folder: Path, count: int) -> list[dict[str, Any]]:
    with OpenAiServer(models=[MODEL], vllm_version="0.32.0") as recorder:
        async with _service(folder, recorder.base_url) as stub:
            for number in range(count):
                await stub.NextAction(_request(number), timeout=TIMEOUT_S)
        return list(recorder.requests)


@asynccontextmanager
async def _service(
    folder: Path, engine_base_url: str
) -> AsyncIterator["OrchestratorServiceAsyncStub"]:
    keys, port = make_key_pair(), free_port()
    verify = write_verify_keys(folder / "verify.json", [keys])
    settings = {
        "port": str(port),
        "verify_keys_file": str(verify),
        "engine_base_url": engine_base_url,
        "default_model": MODEL,
    }
    process = ManagedProcess(
        "orchestrator_inference",
        [sys.executable, "-m", "orchestrator_inference"],
        log_path=folder / "orchestrator_inference.log",
        env={f"ORCHESTRATOR_INFERENCE_{name.upper()}": value for name, value in settings.items()},
    )
    process.start()
    try:
        async with _connected(process, port, keys) as stub:
            yield stub
    finally:
        await process.terminate()


@asynccontextmanager
async def _connected(
    process: ManagedProcess, port: int, keys: KeyPair
) -> AsyncIterator["OrchestratorServiceAsyncStub"]:
    async with client_channel(port, make_identity(), keys) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def serving() -> bool:
            try:
                reply = await health.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.aio.AioRpcError:
                return False
            return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

        await process.wait_ready(serving, 60)
        yield OrchestratorServiceStub(channel)

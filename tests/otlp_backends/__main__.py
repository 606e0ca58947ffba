"""`python -m otlp_backends`: a whole platform's traces in a real Phoenix.

Installs Phoenix into an environment of its own, starts it and the platform of `podium up` with a
scripted model, solves a task, and reads through Phoenix's own API what became of the spans: kinds,
tokens, messages, results. Once over gRPC, once over HTTP. Ends with status 1 when something is
missing.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from clients.environments import run
from e2e.episodes_over_http import finished, start
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium_operations.local.services import CONTENT, ENDPOINT
from temporary_files import server_folder

ENVIRONMENT = Path("build/otlp_backends/phoenix")
MODEL = "scripted-model"
TASK, ANSWER = "what is 6 x 7?", "It is 42."
SUM = {"tool": "calculator", "arguments": {"expression": "6*7"}}
START_TIMEOUT_S = 300.0
ARRIVAL_TIMEOUT_S = 60.0
# What Phoenix must make of the spans, by their names: attributes of its own conventions.
EXPECTED: Mapping[str, Mapping[str, object]] = {
    "invoke_agent podium": {
        "span_kind": "AGENT",
        "llm.input_messages.0.message.content": TASK,
        "llm.output_messages.0.message.content": ANSWER,
    },
    "execute_tool calculator": {
        "span_kind": "TOOL",
        "tool.name": "calculator",
        "tool.parameters.expression": "6*7",
        "output.value": "42",
    },
    f"chat {MODEL}": {"span_kind": "LLM", "llm.model_name": MODEL, "llm.finish_reason": "stop"},
}


def main() -> None:
    sys.exit(asyncio.run(try_both()))


async def try_both() -> int:
    await install()
    problems = []
    async with phoenix() as (http_port, grpc_port):
        for protocol, port in (("grpc", grpc_port), ("http/protobuf", http_port)):
            trace_id = await traced(protocol, f"http://127.0.0.1:{port}")
            found = await spans_of(trace_id, f"http://127.0.0.1:{http_port}")
            wrong = [f"{protocol}: {problem}" for problem in differences(found)]
            print(f"Phoenix over {protocol}: {len(found)} spans, {len(wrong)} problems")
            problems += wrong
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


async def install() -> None:
    """Once; the newest version that there is."""
    done = ENVIRONMENT / "installed"
    if done.exists():
        return
    uv = str(Path(sys.executable).parent / "uv")
    await run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT))
    python = str(ENVIRONMENT / "bin" / "python")
    await run(uv, "pip", "install", "--quiet", "--python", python, "arize-phoenix")
    done.touch()


@asynccontextmanager
async def phoenix() -> AsyncIterator[tuple[int, int]]:
    http_port, grpc_port = free_port(), free_port()
    with server_folder("phoenix") as folder, (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str((ENVIRONMENT / "bin" / "phoenix").resolve()),
            "serve",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "PHOENIX_WORKING_DIR": str(folder),
                "PHOENIX_HOST": "127.0.0.1",
                "PHOENIX_PORT": str(http_port),
                "PHOENIX_GRPC_PORT": str(grpc_port),
                "PHOENIX_TELEMETRY_ENABLED": "false",
            },
            stdout=log,
            stderr=log,
        )
        try:
            await answers(f"http://127.0.0.1:{http_port}/healthz")
            yield http_port, grpc_port
        finally:
            process.terminate()
            await process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def answers(url: str) -> None:
    async with asyncio.timeout(START_TIMEOUT_S), httpx.AsyncClient(trust_env=False) as http:
        while True:
            try:
                if (await http.get(url)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)


async def traced(protocol: str, endpoint: str) -> str:
    os.environ.update(
        {
            ENDPOINT: endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            # Phoenix takes traces alone.
            "OTEL_METRICS_EXPORTER": "none",
            CONTENT: "true",
        }
    )
    with (
        server_folder("traced") as folder,
        OpenAiServer(script=[SUM, {"answer": ANSWER}], models=[MODEL]) as model,
    ):
        # What is not sent yet is flushed at its end.
        async with local_platform(folder, model.base_url, MODEL) as (_, connection):
            headers = {"authorization": f"Bearer {connection.api_key}"}
            async with httpx.AsyncClient(
                base_url=connection.gateway_url, headers=headers, timeout=60, trust_env=False
            ) as client:
                episode_id = await start(client, task=TASK)
                await finished(client, episode_id)
    return episode_id.replace("-", "")


async def spans_of(trace_id: str, url: str) -> list[dict[str, Any]]:
    """Once those that are expected have arrived, or after a while."""
    found: list[dict[str, Any]] = []
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        for _ in range(int(ARRIVAL_TIMEOUT_S)):
            reply = await http.get("/v1/projects/default/spans", params={"limit": 1000})
            listed = reply.raise_for_status().json()["data"]
            found = [each for each in listed if each["context"]["trace_id"] == trace_id]
            if {each["name"] for each in found} >= set(EXPECTED):
                break
            await asyncio.sleep(1)
    return found


def differences(spans: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for name, expected in EXPECTED.items():
        named = [each for each in spans if each["name"] == name]
        if not named:
            found.append(f"there is no span {name}")
            continue
        seen = {**named[0]["attributes"], "span_kind": named[0]["span_kind"]}
        found += [
            f"{name}: {key} is {seen.get(key)!r} and not {value!r}"
            for key, value in expected.items()
            if seen.get(key) != value
        ]
        tokens = seen.get("llm.token_count.total", 0)
        if seen["span_kind"] in ("AGENT", "LLM") and not tokens:
            found.append(f"{name}: no tokens are counted")
    return found


if __name__ == "__main__":
    main()

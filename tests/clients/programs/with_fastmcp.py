"""FastMCP's client: the platform as an MCP server."""

import asyncio

import features
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.client.transports import StreamableHttpTransport


def client(key: str = features.KEY, **parts: object) -> Client:
    return Client(StreamableHttpTransport(f"{features.URL}/mcp", auth=BearerAuth(key)), **parts)


async def asked(**parts: object) -> object:
    async with client(**parts) as server:
        return (await server.call_tool("run_task", {"task": features.QUESTION})).data


def chat() -> None:
    answer = asyncio.run(asked())
    found = answer["answer"] if isinstance(answer, dict) else answer
    features.check(found, features.ANSWER)


def stream() -> None:
    told: list[str] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    asyncio.run(asked(progress_handler=tell))
    features.check(any("final answer" in line for line in told), True)


def errors() -> None:
    try:
        asyncio.run(asked(key="pod_wrong_key"))
    except Exception:  # noqa: BLE001 the library hides the status
        return
    raise AssertionError("a wrong key was accepted")


features.report({"chat": chat, "stream": stream, "errors": errors})

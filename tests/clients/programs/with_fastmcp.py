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


async def shown() -> object:
    async with client() as server:
        return (await server.call_tool("test_image_content", {})).content[-1]


def images() -> None:
    features.check(asyncio.run(shown()).mime_type, "image/png")


async def left(question: str) -> None:
    async with client() as server:
        asking = server.call_tool("run_task", {"task": question})
        with features.gives_up(TimeoutError):
            await asyncio.wait_for(asking, features.IMPATIENCE_S)


def cancel() -> None:
    question = features.slow_question()
    asyncio.run(left(question))
    features.ends(question, features.CANCELLED)


def errors() -> None:
    # The library hides the status.
    with features.gives_up(Exception):
        asyncio.run(asked(key="pod_wrong_key"))


features.report(chat, stream, images, errors, cancel)

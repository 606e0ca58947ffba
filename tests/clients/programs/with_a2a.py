"""The official SDK of the Agent2Agent protocol, in both versions of the protocol that it speaks."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import features
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)

VERSIONS = ("1.0", "0.3")


class Credentials:
    def __init__(self, key: str) -> None:
        self.key = key

    async def get_credentials(self, scheme: str, _context: object) -> str | None:
        return self.key if scheme == "apiKey" else None


@asynccontextmanager
async def client(
    version: str, key: str = features.KEY, streaming: bool = False
) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=120) as http:
        base_url = features.URL.removesuffix("/v1")
        card = await A2ACardResolver(http, base_url).get_agent_card()
        spoken = [each for each in card.supported_interfaces if each.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(spoken)
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield ClientFactory(config).create(card, [AuthInterceptor(Credentials(key))])


def message(text: str) -> SendMessageRequest:
    said = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
    return SendMessageRequest(message=said)


async def asked(version: str, key: str = features.KEY) -> str:
    async with client(version, key) as agent:
        [reply] = [event async for event in agent.send_message(message(features.QUESTION))]
        [artifact] = reply.task.artifacts
        return artifact.parts[0].text


async def streamed(version: str) -> tuple[str, str]:
    """The answer, and the state at the end."""
    answer = state = ""
    async with client(version, streaming=True) as agent:
        async for event in agent.send_message(message(features.QUESTION)):
            if event.HasField("artifact_update"):
                answer += event.artifact_update.artifact.parts[0].text
            if event.HasField("status_update"):
                state = TaskState.Name(event.status_update.status.state)
    return answer, state


def chat() -> None:
    for version in VERSIONS:
        features.check(asyncio.run(asked(version)), features.ANSWER)


def stream() -> None:
    for version in VERSIONS:
        done = (features.ANSWER, "TASK_STATE_COMPLETED")
        features.check(asyncio.run(streamed(version)), done)


async def pictured(version: str) -> str:
    asking = message(features.IMAGE_QUESTION)
    picture = Part(raw=base64.b64decode(features.PIXEL), media_type="image/png")
    asking.message.parts.append(picture)
    async with client(version) as agent:
        [reply] = [event async for event in agent.send_message(asking)]
        [artifact] = reply.task.artifacts
        return artifact.parts[0].text


def images() -> None:
    features.check(asyncio.run(pictured("1.0")), features.IMAGE_ANSWER)


async def cancelled(version: str, question: str) -> str:
    asking = message(question)
    asking.configuration.return_immediately = True
    async with client(version) as agent:
        [begun] = [event.task async for event in agent.send_message(asking)]
        ended = await agent.cancel_task(CancelTaskRequest(id=begun.id))
        return TaskState.Name(ended.status.state)


async def left(version: str, question: str) -> str:
    async with client(version, streaming=True) as agent:
        async for event in agent.send_message(message(question)):
            return event.task.id
    raise AssertionError("there was no task")


async def ended(task_id: str) -> str:
    async with client("1.0") as agent:
        return TaskState.Name((await agent.cancel_task(CancelTaskRequest(id=task_id))).status.state)


def cancel() -> None:
    """Cancels by its operation; a stream that is closed leaves the task to continue."""
    for version in VERSIONS:
        question = features.slow_question()
        features.check(asyncio.run(cancelled(version, question)), "TASK_STATE_CANCELED")
        features.ends(question, features.CANCELLED)
        question = features.slow_question()
        task_id = asyncio.run(left(version, question))
        time.sleep(features.IMPATIENCE_S)
        features.check(features.episode_of(question).get("end_time"), None)
        features.check(asyncio.run(ended(task_id)), "TASK_STATE_CANCELED")


def errors() -> None:
    for version in VERSIONS:
        with features.gives_up(A2AClientError) as found:
            asyncio.run(asked(version, "pod_wrong_key"))
        features.check("401" in str(found[0]), True)


features.report(chat, stream, images, errors, cancel)

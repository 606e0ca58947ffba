from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import make_failure, make_finish

VERSIONS = ("1.0", "0.3")


class OneKey:
    def __init__(self, scheme: str, key: str) -> None:
        self._scheme, self._key = scheme, key

    async def get_credentials(self, scheme: str, _context: ClientCallContext | None) -> str | None:
        return self._key if scheme == self._scheme else None


@asynccontextmanager
async def client_of(
    gateway: Gateway,
    key: str = "",
    *,
    scheme: str = "apiKey",
    version: str = "1.0",
    streaming: bool = True,
) -> AsyncIterator[Client]:
    """A client of a version of the protocol; it authenticates by a scheme of the card."""
    async with httpx.AsyncClient(timeout=30, verify=False, trust_env=False) as http:
        card = await A2ACardResolver(http, gateway.base_url).get_agent_card()
        spoken = [each for each in card.supported_interfaces if each.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(spoken)
        credentials: Any = OneKey(scheme, key or gateway.key)
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield ClientFactory(config).create(card, [AuthInterceptor(credentials)])


def make_request(text: str = "6*7?", **fields: Any) -> SendMessageRequest:
    """`podium` are its options, `at_once` does not wait; the rest is the message's."""
    podium, at_once = fields.pop("podium", None), fields.pop("at_once", False)
    message = Message(
        **{"message_id": str(uuid4()), "role": Role.ROLE_USER, "parts": [Part(text=text)], **fields}
    )
    if podium is not None:
        ParseDict({"podium": podium}, message.metadata)
    configuration = SendMessageConfiguration(return_immediately=at_once)
    return SendMessageRequest(message=message, configuration=configuration)


async def events_of(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [event async for event in client.send_message(request)]


async def sent(client: Client, request: SendMessageRequest) -> Task:
    [reply] = await events_of(client, request)
    return reply.task


def name_of(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def answer_of(task: Task) -> str:
    [artifact] = task.artifacts
    return artifact.parts[0].text


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_message_is_a_task_with_an_answer_and_what_it_cost(
    gateway: Gateway, version: str
) -> None:
    options = {"policy": "cost-first", "budget_usd": "0.5", "turn_limit": 8}
    async with client_of(gateway, version=version, streaming=False) as client:
        task = await sent(client, make_request(podium=options))
        again = await client.get_task(GetTaskRequest(id=task.id))
        short = await client.get_task(GetTaskRequest(id=task.id, history_length=0))
    assert name_of(task) == "completed" and answer_of(task) == "The answer to '6*7?' is 42."
    [(episode_id, running)] = gateway.episodes.episodes.items()
    podium = MessageToDict(task.metadata)["podium"]
    assert (task.id, podium["cost"]["amount"]) == (episode_id, "0.00023")
    spec = running.request.spec
    assert (spec.policy, spec.budget.amount, spec.turn_limit) == ("cost-first", "0.5", 8)
    assert again == task and task.history[0].parts[0].text == "6*7?"
    # The library leaves a length of 0 out of requests of the older version.
    assert not short.history or version == "0.3"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_stream_has_the_task_its_turns_its_answer_and_its_end(
    gateway: Gateway, version: str
) -> None:
    async with client_of(gateway, version=version) as client:
        events = await events_of(client, make_request())
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds == ["task", *["status_update"] * 4, "artifact_update", "status_update"]
    said = [event.status_update.status.message.parts[0].text for event in events[1:5]]
    assert said[1].startswith("Turn 1: I need to multiply. calculator(")
    assert events[5].artifact_update.artifact.parts[0].text == "The answer to '6*7?' is 42."
    assert events[6].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert {event.task.id or event.status_update.task_id for event in events[:5]} == set(
        gateway.episodes.episodes
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_task_is_cancelled_and_then_no_more(gateway: Gateway, version: str) -> None:
    gateway.episodes.pause_s = 3_600
    async with client_of(gateway, version=version, streaming=False) as client:
        begun = await sent(client, make_request(at_once=True))
        cancelled = await client.cancel_task(CancelTaskRequest(id=begun.id))
        with pytest.raises(A2AError) as again:
            await client.cancel_task(CancelTaskRequest(id=begun.id))
    assert (name_of(begun), name_of(cancelled)) == ("working", "canceled")
    assert isinstance(again.value, TaskNotCancelableError) or version == "0.3"
    assert gateway.episodes.cancel_reasons == {begun.id: "an agent cancelled its task"}


async def test_a_task_goes_on_without_its_client_which_can_subscribe_again(
    gateway: Gateway,
) -> None:
    gateway.episodes.pause_s = 0.2
    request = make_request()
    async with client_of(gateway) as client:
        async for event in client.send_message(request):
            task_id = event.task.id
            break
    async with client_of(gateway) as client:
        events = [each async for each in client.subscribe(SubscribeToTaskRequest(id=task_id))]
        with pytest.raises(UnsupportedOperationError):
            _ = [each async for each in client.subscribe(SubscribeToTaskRequest(id=task_id))]
        [again] = [each.task for each in await events_of(client, request) if each.HasField("task")]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert again.id == task_id and list(gateway.episodes.episodes) == [task_id]
    assert not gateway.episodes.cancel_reasons


async def test_a_context_remembers_what_was_said(gateway: Gateway) -> None:
    async with client_of(gateway, streaming=False) as client:
        first = await sent(client, make_request("6*7?"))
        second = await sent(client, make_request("And 7*7?", context_id=first.context_id))
        other = await sent(client, make_request("Hello", context_id="mine"))
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await sent(client, make_request("more", task_id=first.id))
    assert second.context_id == first.context_id and second.id != first.id
    assert other.context_id == "mine"
    history = gateway.episodes.episodes[second.id].request.spec.history
    assert [each.content for each in history] == ["6*7?", "The answer to '6*7?' is 42."]
    assert not gateway.episodes.episodes[other.id].request.spec.history


async def test_a_colleague_cannot_continue_a_context(gateway: Gateway) -> None:
    colleague = await gateway.new_key(subject="eve")
    async with (
        client_of(gateway, streaming=False) as client,
        client_of(gateway, colleague, streaming=False) as eve,
    ):
        first = await sent(client, make_request("6*7?"))
        theirs = await sent(eve, make_request("Say 43", context_id=first.context_id))
        second = await sent(client, make_request("And 7*7?", context_id=first.context_id))
    spec = gateway.episodes.episodes[theirs.id].request.spec
    assert not spec.history
    history = gateway.episodes.episodes[second.id].request.spec.history
    assert [each.content for each in history] == ["6*7?", "The answer to '6*7?' is 42."]


async def test_a_context_has_one_task_at_a_time(gateway: Gateway) -> None:
    gateway.episodes.pause_s = 3_600
    async with client_of(gateway, streaming=False) as client:
        first = await sent(client, make_request(at_once=True))
        with pytest.raises(UnsupportedOperationError, match="still runs"):
            await sent(client, make_request("more", context_id=first.context_id))
        with pytest.raises(UnsupportedOperationError, match="no messages while it runs"):
            await sent(client, make_request("more", task_id=first.id))


@pytest.mark.parametrize(
    ("stop_reason", "turns", "state"),
    [
        ("BUDGET_EXHAUSTED", 0, "rejected"),
        ("BUDGET_EXHAUSTED", 2, "failed"),
        ("TURN_LIMIT", 2, "failed"),
        ("FAILED", 1, "failed"),
    ],
)
async def test_a_task_without_an_answer_says_why(
    gateway: Gateway, stop_reason: str, turns: int, state: str
) -> None:
    failure = make_failure("UNAVAILABLE", "no model answers")
    gateway.episodes.script = lambda _: [make_finish(stop_reason, turns=turns, failure=failure)]
    async with client_of(gateway, streaming=False) as client:
        task = await sent(client, make_request())
    assert name_of(task) == state
    assert "no model answers" in task.status.message.parts[0].text
    assert MessageToDict(task.metadata)["podium"]["reason"] == "EPISODE_UNAVAILABLE"


async def test_what_cannot_be_served_is_an_error_that_names_it(gateway: Gateway) -> None:
    image = Part(raw=b"\x89PNG\r\n\x1a\n", media_type="image/png")
    cases: list[tuple[SendMessageRequest, type[A2AError], str]] = [
        (make_request(podium={"colour": "red"}), InvalidParamsError, "metadata.podium.colour"),
        (make_request(podium={"budget_usd": "-1"}), InvalidParamsError, "budget_usd"),
        (make_request(podium={"model": "gpt-9"}), InvalidParamsError, "gpt-9"),
        (make_request(parts=[image]), ContentTypeNotSupportedError, r"\[0\]: the image cannot"),
        (make_request(" "), InvalidParamsError, "no text"),
        (make_request(role=Role.ROLE_AGENT), InvalidParamsError, "ROLE_USER"),
    ]
    async with client_of(gateway, streaming=False) as client:
        for request, kind, said in cases:
            with pytest.raises(kind, match=said):
                await sent(client, request)
        for task_id in ("nothing", str(uuid4())):
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id=task_id))
        with pytest.raises(UnsupportedOperationError, match="/v1/episodes"):
            await client.list_tasks(ListTasksRequest())
    assert not gateway.episodes.episodes


async def test_the_same_message_with_other_words_is_rejected(gateway: Gateway) -> None:
    async with client_of(gateway, streaming=False) as client:
        await sent(client, make_request(message_id="m1"))
        with pytest.raises(InvalidRequestError, match="another spec"):
            await sent(client, make_request("7*7?", message_id="m1"))
    assert len(gateway.episodes.episodes) == 1


async def test_the_card_says_how_to_authenticate(gateway: Gateway) -> None:
    umbrella = await gateway.new_key("umbrella")
    async with client_of(gateway, umbrella, scheme="apiKeyHeader", streaming=False) as client:
        task = await sent(client, make_request())
    async with client_of(gateway, streaming=False) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
    [running] = gateway.episodes.episodes.values()
    assert running.tenant == "umbrella"
    async with client_of(gateway, "pod_wrong_key", streaming=False) as client:
        with pytest.raises(A2AClientError, match="401"):
            await sent(client, make_request())


async def test_what_is_no_request_is_answered_with_an_error_of_the_protocol(
    gateway: Gateway,
) -> None:
    bodies: list[object] = [{}, [], "\0", 7, {"jsonrpc": "2.0", "id": 1, "method": "fly"}]
    for body in bodies:
        reply = await gateway.post("/v1/a2a", json=body, headers={"a2a-version": "1.0"})
        assert reply.status_code == 200 and reply.json()["error"]["code"] < -32_000
    assert (await gateway.get("/v1/a2a")).status_code == 405


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost@evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "evil.example:localhost",
        'localhost:1"evil.example',
        "LOCALHOST:1@evil.example",
    ],
)
async def test_a_card_names_no_host_that_only_the_request_names(
    gateway: Gateway, host: str
) -> None:
    headers = {"host": host, "x-forwarded-host": "evil.example"}
    card = await gateway.get("/.well-known/agent-card.json", headers=headers, key="")
    assert "evil" not in card.text
    if card.is_success:
        assert (card.headers["cache-control"], card.headers["vary"]) == ("no-store", "host")
        for interface in card.json()["supportedInterfaces"]:
            assert interface["url"] == f"{gateway.base_url}/v1/a2a"


async def test_a_card_names_the_port_that_is_forwarded(gateway: Gateway) -> None:
    for host in ("localhost:9000", "127.0.0.1:9000"):
        card = await gateway.get("/.well-known/agent-card.json", headers={"host": host}, key="")
        urls = {each["url"] for each in card.json()["supportedInterfaces"]}
        assert {url.partition("://")[2] for url in urls} == {f"{host}/v1/a2a"}

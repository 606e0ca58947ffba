import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
import uvicorn
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskStatusUpdateEvent
from fastapi import FastAPI
from starlette.requests import Request

from callers import channel_to, make_identity
from gateway.a2a_server.handler import TaskHandler
from gateway.a2a_server.models import TaskProgress, TaskRecord
from gateway.chat.outcomes import finish_reason, stopped
from gateway.chat.request import ChatRequest
from gateway.chat.routes import chat_router
from gateway.chat.runs import EpisodeRun, begins_with
from gateway.clients import EpisodesClient
from gateway.clients_direct_calls import DirectCallsClient
from gateway.convert import direct_outcome_from_proto, event_from_proto
from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerTooLate, CallLost, EpisodeCancelled, ResponseStillRuns
from gateway.limits.models import TenantLimits
from gateway.limits.service import holding_to
from gateway.mcp_server.clients import PolicyToolsClient
from gateway.mcp_server.models import ToolOrder
from gateway.mcp_server.options import TaskOptions
from gateway.mcp_server.run_task import run_task
from gateway.messages.routes import messages_router
from gateway.models import (
    NO_PRIOR_MESSAGES,
    AnswerPart,
    CallPart,
    KeptRequest,
    ListOrder,
    Outcome,
    PriorMessages,
    ProgressNote,
    StopReason,
)
from gateway.responses.ids import ResponseId
from gateway.responses.mcp_servers import RegisteredMcpTools
from gateway.responses.routes import ResponsesApi, responses_router
from gateway.server import DrainingServer
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.episodes.v1 import direct_call_service_pb2_grpc as calls_rpc
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.identity import acting_as
from unit.gateway.test_answers import make_outcome
from unit.gateway.waiting_episodes import UNUSED, WaitingEpisodes, make_starter

CHAT: Any = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}], "n": 3}


class RoomForTwo(WaitingEpisodes):
    async def start(self, episode_id: str, order: ListOrder) -> None:
        if len(self.started) == 2:
            raise ResourceExhausted("too many run")
        await super().start(episode_id, order)


async def rejected(episodes: WaitingEpisodes, cancel_on_disconnect: bool, key: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"idempotency-key", key.encode())] if key else []
    request = Request({"type": "http", "headers": headers}, receive)
    starter = make_starter(episodes, cancel_on_disconnect=cancel_on_disconnect)
    with acting_as(make_identity()), pytest.raises(ResourceExhausted):
        await starter.start(ChatRequest(**CHAT), request, 3)


@pytest.mark.parametrize("cancel_on_disconnect", [True, False])
async def test_a_rejected_choice_takes_back_those_before_it(cancel_on_disconnect: bool) -> None:
    episodes = RoomForTwo()
    await rejected(episodes, cancel_on_disconnect, key="")
    assert len(episodes.started) == 2
    assert episodes.cancelled == episodes.started


async def test_but_not_those_that_the_same_request_finds_again() -> None:
    episodes = RoomForTwo()
    await rejected(episodes, True, key="three")
    assert len(episodes.started) == 2
    assert not episodes.cancelled


async def test_an_episode_that_an_error_says_goes_on_is_not_cancelled() -> None:
    episodes = WaitingEpisodes()
    run = EpisodeRun(episodes, EpisodeId("episode", chosen_by_caller=False), wait_s=0)
    with pytest.raises(AnswerTooLate, match="episode continues"):
        await run.outcome()
    await run.leave("the client disconnected")
    assert not episodes.cancelled


MESSAGES = {"messages": [{"role": "user", "content": "6*7?"}], "max_tokens": 9}


def app_over(episodes: WaitingEpisodes) -> FastAPI:
    app, starter = FastAPI(), make_starter(episodes)
    app.include_router(chat_router(starter))
    app.include_router(messages_router(starter))
    responses = ResponsesApi(starter, UNUSED, RegisteredMcpTools(UNUSED))
    app.include_router(responses_router(responses))
    return app


async def ask(app: FastAPI, path: str, body: dict[str, Any]) -> None:
    sent = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        if message := next(sent, None):
            return message
        await asyncio.Event().wait()
        return {}

    async def send(message: MutableMapping[str, Any]) -> None: ...

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", MESSAGES),
        ("/v1/messages", MESSAGES),
        ("/v1/responses", {"input": "6*7?"}),
    ],
)
async def test_a_request_that_the_drain_cuts_off_leaves_its_episode(
    path: str, body: dict[str, Any], stream: bool
) -> None:
    episodes = WaitingEpisodes()
    with acting_as(make_identity()):
        whole = {"model": "podium", "stream": stream, **body}
        request = asyncio.create_task(ask(app_over(episodes), path, whole))
        await episodes.followed.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert episodes.cancelled == episodes.started != []


async def test_so_does_a_task_of_mcp() -> None:
    episodes = WaitingEpisodes()

    async def report(message: str, answer_part: str = "") -> None: ...

    with acting_as(make_identity()):
        arguments = {"task": "6*7?"}
        running = run_task(make_starter(episodes), arguments, TaskOptions(), report)
        request = asyncio.create_task(running)
        await episodes.followed.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert episodes.cancelled == episodes.started != []


async def test_the_server_ends_when_they_have_left() -> None:
    config = uvicorn.Config(FastAPI(), lifespan="off", log_config=None, timeout_graceful_shutdown=0)
    config.load()
    server = DrainingServer(config, asyncio.Event(), 0)
    server.servers, server.lifespan = [], config.lifespan_class(config)
    left: list[bool] = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(3):
                await asyncio.sleep(0)
            left.append(True)
            raise

    server.server_state.tasks.add(asyncio.create_task(request()))
    await server.shutdown()
    assert left


CALL_ID = "01900000-0000-7000-8000-000000000001"


ADD_DIRECT_CALLS = calls_rpc.add_DirectCallServiceServicer_to_server


class Restarting(calls_rpc.DirectCallServiceServicer):
    def __init__(self) -> None:
        self.away = 2

    async def MakeDirectCall(self, request: calls_pb.MakeDirectCallRequest, context: Any) -> Any:
        part = adapters_pb.AnswerPart(text="4")
        yield calls_pb.MakeDirectCallResponse(accepted=calls_pb.DirectCall(id=CALL_ID))
        yield calls_pb.MakeDirectCallResponse(part=part)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "this replica is going away")

    async def GetDirectCall(self, request: calls_pb.GetDirectCallRequest, context: Any) -> Any:
        if self.away:
            self.away -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this replica is going away")
        call = calls_pb.DirectCall(id=request.call_id, ended=True, content="42")
        return calls_pb.GetDirectCallResponse(call=call)


@pytest_asyncio.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    restarting = Restarting()  # type: ignore[abstract]
    async with channel_to(ADD_DIRECT_CALLS, restarting) as opened:
        yield opened


LIMITS = TenantLimits(requests_per_s=1, burst=1, concurrency=1, running_episodes=7)
SPEC = calls_pb.DirectCallSpec(tool_name="expert")
SUM = ToolOrder("calculator", "{}", policy="", budget=None, labels={})


async def test_a_restart_is_waited_for(channel: grpc.aio.Channel) -> None:
    with holding_to(LIMITS):
        made = await DirectCallsClient(channel).make(CALL_ID, SPEC)
    part, ended = [event async for event in made.events()]
    assert part == AnswerPart("4")
    assert isinstance(ended, calls_pb.DirectCall) and ended.content == "42"


@pytest.mark.parametrize(
    ("answer", "parts", "holds"),
    [
        ("42", ["4"], True),
        ("42", ["4", "2"], True),
        ("It is 42", ["4"], False),
        ("42", [], True),
    ],
)
def test_an_answer_that_was_made_again_is_no_end_of_what_was_streamed(
    answer: str, parts: list[str], holds: bool
) -> None:
    call = calls_pb.DirectCall(ended=True, content=answer)
    outcome = direct_outcome_from_proto(call)
    assert begins_with(outcome, [AnswerPart(text) for text in parts]) is holds


def test_a_call_of_a_function_that_was_made_again_is_none_either() -> None:
    call = calls_pb.DirectCall(ended=True)
    call.function_calls.add(id="a", name="f", arguments_json='{"x": 1}')
    outcome = direct_outcome_from_proto(call)
    for arguments, holds in (('{"x"', True), ('{"y"', False)):
        piece = CallPart(7, "a", "f", arguments)
        assert begins_with(outcome, [AnswerPart("", (piece,))]) is holds
    assert finish_reason(outcome) == "tool_calls"
    cut = direct_outcome_from_proto(calls_pb.DirectCall(ended=True, finish_reason="length"))
    assert finish_reason(replace(cut, client_calls=outcome.client_calls)) == "length"


async def test_a_restart_is_waited_for_by_mcp_clients_too(channel: grpc.aio.Channel) -> None:
    with holding_to(LIMITS):
        made = await PolicyToolsClient(channel, channel).start(CALL_ID, SUM)
    assert (await made.result()).content == "42"


async def test_a_call_that_is_lost_is_not_to_be_made_again(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.clients_direct_calls.WATCH_PATIENCE_S", 0.0)
    with holding_to(LIMITS):
        made = await DirectCallsClient(channel).make(CALL_ID, SPEC)
    with pytest.raises(CallLost, match=f"/v1/direct-calls/{CALL_ID}") as lost:
        await made.ended()
    assert lost.value.metadata == {"call_id": CALL_ID, "retryable": "false"}


class Calls(calls_rpc.DirectCallServiceServicer):
    def __init__(self) -> None:
        self.started: list[calls_pb.StartDirectCallRequest] = []

    async def MakeDirectCall(self, request: calls_pb.MakeDirectCallRequest, context: Any) -> Any:
        self.started.append(request.start)
        yield calls_pb.MakeDirectCallResponse(accepted=calls_pb.DirectCall())


async def test_a_call_is_held_to_the_limit_of_the_tenant() -> None:
    calls = Calls()  # type: ignore[abstract]
    async with channel_to(ADD_DIRECT_CALLS, calls) as channel:
        with holding_to(LIMITS):
            await PolicyToolsClient(channel, channel).start("0190", SUM)
    assert [each.running_limit for each in calls.started] == [7]


class EndedEpisode(rpc.EpisodeServiceServicer):
    def __init__(self) -> None:
        self.watches = 0

    async def WatchEpisode(self, request: pb.WatchEpisodeRequest, context: Any) -> Any:
        self.watches += 1
        if self.watches > 1:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "asked once more")
        for _ in ():
            yield pb.WatchEpisodeResponse()

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Any) -> Any:
        episode = episode_pb2.Episode(state=episode_pb2.EPISODE_STATE_FINISHED)
        return pb.GetEpisodeResponse(episode=episode)


async def test_a_watch_after_the_last_event_ends() -> None:
    ended = EndedEpisode()  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, ended) as channel:
        events = [event async for event in EpisodesClient(channel).watch("0190", 5)]
    assert not events


class ToolEpisode(rpc.EpisodeServiceServicer):
    async def WatchEpisode(self, request: pb.WatchEpisodeRequest, context: Any) -> Any:
        returned = episode_pb2.EpisodeEvent(sequence=2, turn=1)
        returned.tool_returned.observation.call.tool_name = "search"
        returned.tool_returned.observation.content = "a long text"
        ended = episode_pb2.EpisodeEvent(sequence=3)
        ended.finished.episode.id = "0190"
        for event in (returned, ended):
            yield pb.WatchEpisodeResponse(event=event)


@pytest.mark.parametrize(("with_calls", "kept"), [(False, []), (True, ["a long text"])])
async def test_what_tools_gave_is_kept_for_those_who_ask(with_calls: bool, kept: list[str]) -> None:
    episode = ToolEpisode()  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, episode) as channel:
        events = EpisodesClient(channel).events("0190", with_calls=with_calls)
        last = [event async for event in events][-1]
    assert isinstance(last, Outcome)
    assert [call.content for call in last.made_calls] == kept


PREVIOUS = "previous_response_id"


class Standing(rpc.EpisodeServiceServicer):
    def __init__(self, state: str) -> None:
        number = episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{state}")
        ended = state == "FINISHED"
        self.episode = episode_pb2.Episode(id="0190", state=number, answer="42" if ended else "")
        self.episode.spec.task = "6*7?"

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Any) -> Any:
        return pb.GetEpisodeResponse(episode=self.episode)


@asynccontextmanager
async def client_of(state: str) -> AsyncIterator[EpisodesClient]:
    standing = Standing(state)  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, standing) as channel:
        yield EpisodesClient(channel)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_nothing_goes_on_from_an_answer_that_is_not_there_yet(state: str) -> None:
    async with client_of(state) as client:
        with pytest.raises(ResponseStillRuns, match="still runs; wait"):
            await client.prior_messages("0190", PREVIOUS)


@pytest.mark.parametrize(("state", "said"), [("FINISHED", ["6*7?", "42"]), ("WAITING", ["6*7?"])])
async def test_what_was_said_is_there_once_it_has_ended_or_waits(
    state: str, said: list[str]
) -> None:
    async with client_of(state) as client:
        found = await client.prior_messages("0190", PREVIOUS)
    assert [message.content for message in found.messages] == said


def progress_line(name: str) -> str:
    event = episode_pb2.EpisodeEvent()
    getattr(event, name).SetInParent()
    progress = event_from_proto(event)
    assert isinstance(progress, ProgressNote)
    return progress.line


def test_only_the_start_speaks_of_allowed_tools() -> None:
    events = {field.name for field in episode_pb2.EpisodeEvent.DESCRIPTOR.oneofs[0].fields}
    speaking = {
        name for name in events - {"finished"} if "tools are allowed" in progress_line(name)
    }
    assert speaking == {"started"}


@pytest.mark.parametrize(
    ("stops", "answer", "found"),
    [
        ([], "one, two; three", ""),
        (["four"], "one, two; three", ""),
        ([";"], "one, two", ";"),
        ([";", ","], "one", ","),
        (["tw", "two"], "one, ", "two"),
        (["one"], "", "one"),
    ],
)
def test_the_earliest_stop_cuts(stops: list[str], answer: str, found: str) -> None:
    cut = stopped(make_outcome(StopReason.TURN_LIMIT, answer="one, two; three"), stops)
    assert (cut.answer, cut.stop_sequence) == (answer, found)
    assert finish_reason(cut) == ("stop" if found else "length")


ID = str(ResponseId("01900000-0000-7000-8000-000000000000", 0))


class Stands(EpisodesClient):
    def __init__(self, outcome: Outcome | None) -> None:
        self.outcome = outcome
        self.cancelled = 0

    async def cancel(self, episode_id: str, reason: str) -> None:
        self.cancelled += 1

    async def outcome_now(self, episode_id: str, answered_turn: int) -> Outcome | None:
        return self.outcome

    async def kept(self, episode_id: str, label: str) -> KeptRequest:
        return KeptRequest()


def api(episodes: EpisodesClient) -> ResponsesApi:
    unused: Any = None
    return ResponsesApi(unused, episodes, RegisteredMcpTools(unused))


@pytest.mark.parametrize("outcome", [None, make_outcome(StopReason.CANCELLED)])
async def test_one_that_ran_is_cancelled(outcome: Outcome | None) -> None:
    episodes = Stands(outcome)
    assert (await api(episodes).cancel(ID))["status"] == "cancelled"
    assert episodes.cancelled == 1


async def test_one_that_had_ended_is_shown_as_it_is() -> None:
    responses = api(Stands(make_outcome(answer="42")))
    shown = await responses.cancel(ID)
    assert shown["status"] == "completed"
    assert shown["output"] == (await responses.find(ID))["output"]


async def test_a_cancelled_one_that_is_asked_for_has_no_answer() -> None:
    with pytest.raises(EpisodeCancelled):
        await api(Stands(make_outcome(StopReason.CANCELLED))).find(ID)


class TwoCalls(WaitingEpisodes):
    async def events(
        self, episode_id: str, answered_turn: int = 0, **_: bool
    ) -> AsyncIterator[ProgressNote | Outcome]:
        for line in ("Turn 1: two calls", "one returned", "the other returned"):
            yield ProgressNote(1, line, {})
        yield make_outcome(answer="42")


class Ended:
    async def find(self, task_id: str) -> TaskRecord | None:
        now = datetime.now(UTC)
        outcome = make_outcome(answer="42")
        return TaskRecord(task_id, task_id, "6*7?", TaskProgress.FINISHED, outcome, now, now)

    async def before(self, context_id: str, task_id: str) -> TaskRecord | None:
        return None

    async def prior_messages(self, task_id: str) -> PriorMessages:
        return NO_PRIOR_MESSAGES


async def test_messages_of_one_turn_have_ids_of_their_own() -> None:
    handler = TaskHandler(make_starter(TwoCalls()), Ended())
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text="6*7?")])
    with acting_as(make_identity()):
        events = [
            event
            async for event in handler.on_message_send_stream(
                SendMessageRequest(message=message), ServerCallContext()
            )
        ]
    ids = [
        event.status.message.message_id
        for event in events
        if isinstance(event, TaskStatusUpdateEvent) and event.status.HasField("message")
    ]
    assert len(set(ids)) == len(ids) == 3

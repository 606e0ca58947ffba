import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.episodes.v1 import episode_pb2 as episode
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator
from podium_kit.rpc.errors import (
    AlreadyExists,
    DomainError,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from podium_kit.rpc.identity import Identity, current_identity

CALL = orchestrator.ToolCall(tool_name="calculator", arguments_json='{"expression": "6*7"}')
Script = Callable[[pb.StartEpisodeRequest], list[episode.EpisodeEvent]]
Sequel = Callable[[pb.AnswerToolCallsRequest], list[episode.EpisodeEvent]]


class EpisodeNotFound(NotFound):
    pass


class EpisodeConflict(AlreadyExists):
    pass


class ToolNotFound(NotFound):
    pass


class UnsupportedAttachment(InvalidArgument):
    pass


class TooManyRunning(ResourceExhausted):
    pass


def make_quantity(name: str, amount: int) -> usage_pb2.Quantity:
    dimension = usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{name}")
    return usage_pb2.Quantity(dimension=dimension, amount=str(amount))


def make_decision(
    turn: int, used: usage_pb2.Usage | None = None, **action: Any
) -> episode.EpisodeEvent:
    return episode.EpisodeEvent(
        turn=turn,
        action_decided=episode.ActionDecided(
            action=orchestrator.Action(**action),
            usage=used,
            cost=money_pb2.Money(currency_code="USD", amount="0.0001"),
        ),
    )


def make_client_calls(turn: int, *calls: orchestrator.ToolCall) -> episode.EpisodeEvent:
    requested = episode.ClientCallsRequested(calls=calls)
    return episode.EpisodeEvent(turn=turn, client_calls_requested=requested)


def make_tool_return(turn: int, **observation: Any) -> episode.EpisodeEvent:
    return episode.EpisodeEvent(
        turn=turn,
        tool_returned=episode.ToolReturned(
            observation=orchestrator.Observation(call=CALL, **observation)
        ),
    )


def make_finish(
    stop_reason: str = "ANSWERED", answer: str = "", turns: int = 2, **fields: Any
) -> episode.EpisodeEvent:
    usage = [
        make_quantity("INPUT_FRESH", 100),
        make_quantity("CACHE_READ", 50),
        make_quantity("OUTPUT_TEXT", 20),
        make_quantity("REASONING", 5),
    ]
    ended = episode.Episode(
        state=episode.EPISODE_STATE_FINISHED,
        stop_reason=episode.StopReason.Value(f"STOP_REASON_{stop_reason}"),
        answer=answer,
        turn_count=turns,
        tool_call_count=1,
        cost=money_pb2.Money(currency_code="USD", amount="0.00023"),
        usage=usage,
        policy_name="balanced",
        policy_version=1,
        **fields,
    )
    return episode.EpisodeEvent(turn=turns, finished=episode.EpisodeFinished(episode=ended))


def make_usage(**amounts: int) -> usage_pb2.Usage:
    return usage_pb2.Usage(quantities=[make_quantity(*each) for each in amounts.items()])


def make_failure(kind: str, message: str, retryable: bool = False) -> failure_pb2.Failure:
    number = failure_pb2.FailureKind.Value(f"FAILURE_KIND_{kind}")
    return failure_pb2.Failure(kind=number, message=message, retryable=retryable)


def calculator_script(request: pb.StartEpisodeRequest) -> list[episode.EpisodeEvent]:
    started = episode.EpisodeStarted(tool_names=["calculator"], policy_name="balanced")
    return [
        episode.EpisodeEvent(started=started),
        make_decision(
            1, thought="I need to multiply.", tool_calls=orchestrator.ToolCalls(calls=[CALL])
        ),
        make_tool_return(1, content="42"),
        make_decision(2, final_answer="42"),
        make_finish(answer=f"The answer to {request.spec.task!r} is 42."),
    ]


class RunningEpisode:
    def __init__(self, request: pb.StartEpisodeRequest, tenant: str, subject: str) -> None:
        self.request = request
        self.tenant = tenant
        self.subject = subject
        self.events: list[episode.EpisodeEvent] = []
        self.changed = asyncio.Condition()
        self.current = episode.Episode(
            id=request.episode_id, spec=request.spec, state=episode.EPISODE_STATE_RUNNING
        )

    async def append(self, event: episode.EpisodeEvent) -> None:
        event.sequence = len(self.events) + 1
        event.time.CopyFrom(_now())
        self.current.turn_count = event.turn
        if event.HasField("finished"):
            self._finish(event.finished.episode)
        self.events.append(event)
        async with self.changed:
            self.changed.notify_all()

    async def longer_than(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.events) > count)

    def _finish(self, ended: episode.Episode) -> None:
        ended.id = self.request.episode_id
        ended.spec.CopyFrom(self.request.spec)
        ended.create_time.CopyFrom(self.current.create_time)
        ended.end_time.CopyFrom(_now())
        self.current = ended

    @property
    def ended(self) -> bool:
        return self.current.state == episode.EPISODE_STATE_FINISHED


class ScriptedEpisodes(rpc.EpisodeServiceServicer):
    """Real RPC behaviour: tenants apart, idempotent starts, resumable watches, cancels."""

    def __init__(self) -> None:
        self.script: Script = calculator_script
        # Tools that there are.
        self.tool_names = {"calculator"}
        self.pause_s = 0.0
        self.watches_to_break = 0
        # Starts whose episode runs although its reply is lost.
        self.replies_to_lose = 0
        # One more than so many is rejected.
        self.episodes_max: int | None = None
        # What every start is rejected with.
        self.rejection: DomainError | None = None
        self.episodes: dict[str, RunningEpisode] = {}
        # Who started episodes, as the gateway's tokens say.
        self.starters: list[Identity] = []
        self.open_watches: set[object] = set()
        self.cancel_reasons: dict[str, str] = {}
        self.approvals: list[pb.ApproveToolCallRequest] = []
        # What happens once the client has answered, and what it answered.
        self.sequel: Sequel = lambda request: [make_finish()]
        self.answers: list[pb.AnswerToolCallsRequest] = []
        self.resumed_after: list[int] = []
        # What watchers who ask for them are shown first.
        self.answer_parts: list[pb.EpisodeAnswerPart] = []
        self.end_only: list[bool] = []
        self._players: set[asyncio.Task[None]] = set()

    async def StartEpisode(
        self, request: pb.StartEpisodeRequest, context: Any
    ) -> pb.StartEpisodeResponse:
        self.starters.append(current_identity())
        known = self.episodes.get(request.episode_id)
        if known is None:
            if len(self.episodes) == self.episodes_max:
                raise TooManyRunning("your tenant may run no more episodes at once")
            self._check(request.spec)
            if self.rejection is not None:
                raise self.rejection
            identity = current_identity()
            known = RunningEpisode(request, identity.tenant, identity.subject)
            known.current.create_time.CopyFrom(_now())
            self.episodes[request.episode_id] = known
            player = asyncio.create_task(self._play(known))
            self._players.add(player)
            player.add_done_callback(self._players.discard)
        if known.request.spec != request.spec:
            raise EpisodeConflict(f"episode {request.episode_id} was started with another spec")
        if self.replies_to_lose:
            self.replies_to_lose -= 1
            raise Unavailable("the connection was lost", retry_after_s=0.1)
        return pb.StartEpisodeResponse(episode=known.current)

    def _check(self, spec: episode.EpisodeSpec) -> None:
        if not spec.task:
            raise InvalidArgument("spec.task is empty")
        for name in spec.tool_names:
            if name not in self.tool_names:
                raise ToolNotFound(f"there is no tool {name}")

    async def _play(self, running: RunningEpisode) -> None:
        for event in self.script(running.request):
            await asyncio.sleep(self.pause_s)
            if running.ended:
                return
            await running.append(event)

    def _mine(self, episode_id: str) -> RunningEpisode:
        running = self.episodes.get(episode_id)
        if running is None or running.tenant != current_identity().tenant:
            raise EpisodeNotFound(f"there is no episode {episode_id}")
        return running

    async def CountPromptTokens(
        self, request: pb.CountPromptTokensRequest, context: Any
    ) -> pb.CountPromptTokensResponse:
        self._check(request.spec)
        said = [message.content for message in request.spec.history]
        size = sum(map(len, [*said, request.spec.task]))
        return pb.CountPromptTokensResponse(token_count=size)

    async def GetEpisode(
        self, request: pb.GetEpisodeRequest, context: Any
    ) -> pb.GetEpisodeResponse:
        return pb.GetEpisodeResponse(episode=self._mine(request.episode_id).current)

    async def ListEpisodes(
        self, request: pb.ListEpisodesRequest, context: Any
    ) -> pb.ListEpisodesResponse:
        tenant, wanted = current_identity().tenant, request.filter
        found = [
            each.current
            for each in reversed(self.episodes.values())
            if each.tenant == tenant
            and (not wanted.states or each.current.state in wanted.states)
            and wanted.labels.items() <= each.request.spec.labels.items()
            and (not wanted.own or each.subject == current_identity().subject)
        ]
        return pb.ListEpisodesResponse(episodes=found[: request.page_size or 50])

    async def WatchEpisode(
        self, request: pb.WatchEpisodeRequest, context: Any
    ) -> AsyncIterator[pb.WatchEpisodeResponse]:
        running, sent = self._mine(request.episode_id), request.after_sequence
        self.resumed_after.append(sent)
        self.end_only.append(request.end_only)
        # A watch that outlives its test must not count among those of the next one.
        open_watches, watch = self.open_watches, object()
        open_watches.add(watch)
        try:
            if request.end_only:
                # There is nothing to lose after its event.
                self._maybe_break()
            for part in self.answer_parts if request.answer_parts else ():
                yield pb.WatchEpisodeResponse(answer_part=part)
            while True:
                for event in running.events[sent:]:
                    if event.HasField("finished") or not request.end_only:
                        yield pb.WatchEpisodeResponse(event=event)
                    sent += 1
                    self._maybe_break()
                if running.ended:
                    return
                await running.longer_than(sent)
        finally:
            open_watches.remove(watch)

    @property
    def watching(self) -> int:
        return len(self.open_watches)

    def _maybe_break(self) -> None:
        if self.watches_to_break:
            self.watches_to_break -= 1
            raise Unavailable("this replica is going away")

    async def CancelEpisode(
        self, request: pb.CancelEpisodeRequest, context: Any
    ) -> pb.CancelEpisodeResponse:
        running = self._mine(request.episode_id)
        if not running.ended:
            self.cancel_reasons[request.episode_id] = request.reason
            await running.append(make_finish("CANCELLED"))
        return pb.CancelEpisodeResponse(episode=running.current)

    async def ApproveToolCall(
        self, request: pb.ApproveToolCallRequest, context: Any
    ) -> pb.ApproveToolCallResponse:
        self.approvals.append(request)
        return pb.ApproveToolCallResponse(episode=self._mine(request.episode_id).current)

    async def AnswerToolCalls(
        self, request: pb.AnswerToolCallsRequest, context: Any
    ) -> pb.AnswerToolCallsResponse:
        running = self._mine(request.episode_id)
        if request not in self.answers:
            self.answers.append(request)
            for event in self.sequel(request):
                await running.append(event)
        return pb.AnswerToolCallsResponse(episode=running.current)

    async def GetTrajectory(
        self, request: pb.GetTrajectoryRequest, context: Any
    ) -> pb.GetTrajectoryResponse:
        self._mine(request.episode_id)
        found = trajectory_pb2.Trajectory(episode_id=request.episode_id)
        return pb.GetTrajectoryResponse(trajectory=found)


def _now() -> Timestamp:
    now = Timestamp()
    now.GetCurrentTime()
    return now

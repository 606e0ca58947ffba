from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskStatusUpdateEvent

from callers import make_identity
from gateway.a2a_server.handler import TaskHandler
from gateway.a2a_server.models import TaskProgress, TaskRecord
from gateway.models import NO_PRIOR_MESSAGES, Outcome, PriorMessages, ProgressNote
from podium_kit.rpc.identity import acting_as
from unit.gateway.test_outcomes import make_outcome
from unit.gateway.waiting_episodes import WaitingEpisodes, make_starter


class TwoCalls(WaitingEpisodes):
    async def events(
        self, episode_id: str, answered_turn: int = 0, *, with_calls: bool = False
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

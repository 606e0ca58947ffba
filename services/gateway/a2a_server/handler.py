from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NoReturn
from uuid import UUID

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from gateway.a2a_server.clients import Tasks
from gateway.a2a_server.models import CONTEXT_LABEL, TaskRecord
from gateway.a2a_server.requests import WEBHOOKS, TaskRequest, length_of
from gateway.a2a_server.tasks import (
    answer_event,
    final_event,
    in_its_words,
    progress_event,
    task_of,
)
from gateway.chat.runs import EpisodeRun
from gateway.chat.starting import EpisodeStarter, while_connected
from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerTooLate
from gateway.models import NO_PRIOR_MESSAGES, PriorMessages, ProgressNote

# How long a cancel waits to say that the task has ended.
CANCEL_WAIT_S = 10.0
# Where the builder of contexts leaves the HTTP request.
REQUEST = "request"


@dataclass(frozen=True)
class TaskHandler(RequestHandler):
    """A task is an episode. It continues when its client goes away: its message names it, so the
    client can ask again."""

    starter: EpisodeStarter
    tasks: Tasks

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        with in_its_words():
            request = TaskRequest.of(params)
            run = await self._start(request)
            if not request.returns_at_once:
                # What takes longer than a request may is asked for by its id.
                with suppress(AnswerTooLate):
                    await while_connected(context.state[REQUEST], run.outcome())
            return task_of(await self._record(run.episode_id), request.history_length)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        with in_its_words():
            request = TaskRequest.of(params)
            run = await self._start(request)
            async for event in self._events(run, request.history_length):
                yield event

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        with in_its_words():
            record = await self._record(params.id)
            if record.ended:
                raise UnsupportedOperationError("the task has ended; get it instead")
            async for event in self._events(self._known(record.id, self.starter.wait_s), None):
                yield event

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        with in_its_words():
            return task_of(await self._record(params.id), length_of(params))

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Returns the task after the cancellation, within seconds unless a part is away."""
        with in_its_words():
            record = await self._record(params.id)
            if record.ended:
                raise TaskNotCancelableError("the task has ended")
            await self.starter.episodes.cancel(record.id, "an agent cancelled its task")
            with suppress(AnswerTooLate):
                await self._known(record.id, CANCEL_WAIT_S).outcome()
            return task_of(await self._record(record.id))

    async def _start(self, request: TaskRequest) -> EpisodeRun:
        """Starts the episode, or finds it: the same message is the same task."""
        if request.task_id:
            await self._reject_more(request)
        order = request.arguments.order(
            await self.starter.catalogue.orchestrator(request.arguments.model)
        )
        async with self.starter.episode_ids.starting_with(request.key, request.body) as episode:
            run = self.starter.part_of(episode)
            context_id = request.context_id or episode.value
            before = await self._prior_messages(request.context_id, episode.value)
            order = request.after(before, order)
            labels = {**order.labels, CONTEXT_LABEL: context_id}
            await run.start(replace(order, labels=labels))
        return run

    async def _reject_more(self, request: TaskRequest) -> None:
        record = await self._record(request.task_id)
        if request.context_id not in ("", record.context_id):
            raise InvalidParamsError(f"task {record.id} is of context {record.context_id}")
        if record.ended:
            raise UnsupportedOperationError(
                "the task has ended; send the message with its contextId and without taskId"
            )
        raise UnsupportedOperationError("the task takes no messages while it runs")

    async def _prior_messages(self, context_id: str, episode_id: str) -> PriorMessages:
        if not context_id:
            return NO_PRIOR_MESSAGES
        last = await self.tasks.before(context_id, episode_id)
        if last is None:
            return NO_PRIOR_MESSAGES
        if not last.ended:
            raise UnsupportedOperationError(
                f"task {last.id} of this context still runs; wait for it or cancel it"
            )
        return await self.tasks.prior_messages(last.id)

    async def _events(self, run: EpisodeRun, history_length: int | None) -> AsyncIterator[Any]:
        record = await self._record(run.episode_id)
        yield task_of(record, history_length)
        numbers = count(1)
        async for event in run.events():
            if isinstance(event, ProgressNote):
                yield progress_event(record, next(numbers), event)
        record = await self._record(run.episode_id)
        if record.outcome.answer:
            yield answer_event(record)
        yield final_event(record)

    async def _record(self, task_id: str) -> TaskRecord:
        try:
            record = await self.tasks.find(str(UUID(task_id)))
        except ValueError:
            record = None
        if record is None:
            raise TaskNotFoundError(f"there is no task {task_id[:100]}")
        return record

    def _known(self, task_id: str, wait_s: float) -> EpisodeRun:
        return EpisodeRun(self.starter.episodes, EpisodeId(task_id, chosen_by_caller=True), wait_s)

    async def on_list_tasks(self, params: Any, context: Any) -> NoReturn:
        raise UnsupportedOperationError("tasks are episodes; list them with GET /v1/episodes")

    async def on_get_extended_agent_card(self, params: Any, context: Any) -> NoReturn:
        raise ExtendedAgentCardNotConfiguredError("the public card says everything")

    async def on_create_task_push_notification_config(self, params: Any, context: Any) -> NoReturn:
        raise PushNotificationNotSupportedError(WEBHOOKS)

    async def on_get_task_push_notification_config(self, params: Any, context: Any) -> NoReturn:
        raise PushNotificationNotSupportedError(WEBHOOKS)

    async def on_list_task_push_notification_configs(self, params: Any, context: Any) -> NoReturn:
        raise PushNotificationNotSupportedError(WEBHOOKS)

    async def on_delete_task_push_notification_config(self, params: Any, context: Any) -> NoReturn:
        raise PushNotificationNotSupportedError(WEBHOOKS)

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
)
from google.protobuf.struct_pb2 import Struct

from gateway.a2a_server.models import TaskProgress, TaskRecord
from gateway.chat.outcomes import episode_error
from gateway.chat.response import podium
from gateway.errors import UpstreamFault
from gateway.http.error_responses import http_status
from gateway.models import Outcome, ProgressNote, StopReason
from podium_kit.rpc.errors import DomainError, message_of
from podium_kit.wire import timestamp_to_proto

log = logging.getLogger(__name__)

ANSWER = "answer"
WAITS = "a call waits for a person's approval, or for the client that started this episode"
UNDER_WAY = {
    TaskProgress.PENDING: TaskState.TASK_STATE_SUBMITTED,
    TaskProgress.RUNNING: TaskState.TASK_STATE_WORKING,
    TaskProgress.WAITING: TaskState.TASK_STATE_WORKING,
}


def task_of(record: TaskRecord, history_length: int | None = None) -> Task:
    outcome = record.outcome
    task = Task(id=record.id, context_id=record.context_id, status=_status(record))
    if record.ended:
        task.metadata.CopyFrom(_metadata(outcome))
    if record.ended and outcome.answer:
        task.artifacts.append(_artifact(outcome))
    if history_length is None or history_length > 0:
        task.history.append(_asked(record))
    return task


def progress_event(
    record: TaskRecord, number: int, progress: ProgressNote
) -> TaskStatusUpdateEvent:
    """Describes an event in a line; its number stays the same each time."""
    name = f"progress-{number}"
    status = TaskStatus(
        state=TaskState.TASK_STATE_WORKING,
        message=_agent_message(record.id, record.context_id, progress.line.strip(), name),
    )
    return TaskStatusUpdateEvent(task_id=record.id, context_id=record.context_id, status=status)


def answer_event(record: TaskRecord) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(
        task_id=record.id,
        context_id=record.context_id,
        artifact=_artifact(record.outcome),
        last_chunk=True,
    )


def final_event(record: TaskRecord) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(
        task_id=record.id,
        context_id=record.context_id,
        status=_status(record),
        metadata=_metadata(record.outcome),
    )


def state_of(outcome: Outcome) -> TaskState:
    """Returns the state of an ended episode. A limit that cut it short is a failure, which keeps
    the answer so far; a limit that it did not even begin for rejects it.
    """
    if outcome.stop_reason is StopReason.ANSWERED:
        return TaskState.TASK_STATE_COMPLETED
    if outcome.stop_reason is StopReason.CANCELLED:
        return TaskState.TASK_STATE_CANCELED
    if outcome.stop_reason is StopReason.BUDGET_EXHAUSTED and not outcome.turn_count:
        return TaskState.TASK_STATE_REJECTED
    return TaskState.TASK_STATE_FAILED


def _status(record: TaskRecord) -> TaskStatus:
    text = ""
    if not record.ended:
        state = UNDER_WAY[record.standing]
        text = WAITS if record.standing is TaskProgress.WAITING else ""
    elif (state := state_of(record.outcome)) != TaskState.TASK_STATE_COMPLETED:
        text = episode_error(record.outcome).message
    status = TaskStatus(state=state, timestamp=timestamp_to_proto(record.changed))
    if text:
        status.message.CopyFrom(_agent_message(record.id, record.context_id, text, "status"))
    return status


def _artifact(outcome: Outcome) -> Artifact:
    return Artifact(artifact_id=ANSWER, name=ANSWER, parts=[Part(text=outcome.answer)])


def _asked(record: TaskRecord) -> Message:
    return Message(
        message_id=f"{record.id}/task",
        task_id=record.id,
        context_id=record.context_id,
        role=Role.ROLE_USER,
        parts=[Part(text=record.task)],
    )


def _agent_message(task_id: str, context_id: str, text: str, name: str) -> Message:
    return Message(
        message_id=f"{task_id}/{name}",
        task_id=task_id,
        context_id=context_id,
        role=Role.ROLE_AGENT,
        parts=[Part(text=text)],
    )


def _metadata(outcome: Outcome) -> Struct:
    text = podium(outcome)
    if state_of(outcome) != TaskState.TASK_STATE_COMPLETED:
        text["reason"] = episode_error(outcome).reason
    found = Struct()
    found.update({"podium": text})
    return found


INVALID = (400, 404)
# The reason of the episode service for a file that no one reads.
UNREAD = "UNSUPPORTED_ATTACHMENT"


@contextmanager
def in_its_words() -> Iterator[None]:
    """Turns the block's errors into errors that the library answers with."""
    try:
        yield
    except A2AError:
        raise
    except DomainError as error:
        raise _translated(error) from error
    except Exception as error:
        log.exception("an agent's request failed: %s", message_of(error))
        raise InternalError(UpstreamFault().message) from error


def _translated(error: DomainError) -> A2AError:
    """The protocol has no code for most; `data` has the reason and the status of our REST API."""
    status, _ = http_status(error)
    data = {**error.metadata, "reason": error.reason, "status": str(status)}
    if error.reason == UNREAD:
        return ContentTypeNotSupportedError(error.message, data)
    if status in INVALID:
        return InvalidParamsError(error.message, data)
    return (
        InternalError(error.message, data)
        if status >= 500
        else InvalidRequestError(error.message, data)
    )

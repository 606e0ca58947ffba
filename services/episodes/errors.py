from collections.abc import Iterable, Sequence

from cachetools import LRUCache

from podium_kit.attachments import Attachment
from podium_kit.rpc.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)


class InvalidEpisode(InvalidArgument):
    """The request cannot become an episode."""


class EpisodeNotFound(NotFound):
    def __init__(self, episode_id: str) -> None:
        super().__init__(f"there is no episode {episode_id}", episode_id=episode_id)


class EpisodeConflict(AlreadyExists):
    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} was started with another spec; use a new id",
            episode_id=episode_id,
        )


class StartTooLate(DeadlineExceeded):
    """A service answered too late for the caller's deadline."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} was not started: a service answered too late; "
            "send the same request again",
            episode_id=episode_id,
        )


class GroupConflict(AlreadyExists):
    def __init__(self, group_id: str, sample_index: int) -> None:
        super().__init__(
            f"sample {sample_index} of group {group_id} is another episode", group_id=group_id
        )


class TooManyRunning(ResourceExhausted):
    def __init__(self, running_limit: int) -> None:
        super().__init__(
            f"your tenant may run {running_limit} episodes at once and does; wait until one ends, "
            "cancel one, or ask the platform's admin for more",
            running_limit=running_limit,
        )


class TooManyEventStreams(ResourceExhausted):
    def __init__(self, streams_max: int) -> None:
        super().__init__(
            f"your tenant follows its events {streams_max} times at once; close a stream, such as"
            " that of a page of the console that is not used",
            streams_max=streams_max,
        )


class ModelNotFound(NotFound):
    def __init__(self, model: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no orchestrator model {model}; known are {', '.join(known)}", model=model
        )


class SearchTooSlow(FailedPrecondition):
    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"finding these episodes would take the database longer than {seconds} s; narrow the"
            " time with start_time and end_time, or give a policy, a subject or a stop reason",
            param="filter",
        )


class EpisodeNotFinished(FailedPrecondition):
    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} still runs; watch it, or cancel it", episode_id=episode_id
        )


class DeadLetterNotFound(NotFound):
    def __init__(self, record_id: str) -> None:
        super().__init__(
            f"no record {record_id[:100]} is dead-lettered, and none was published; "
            "`podium trajectories dead-letters` lists them",
            record_id=record_id[:100],
        )


class SelfApproval(PermissionDenied):
    def __init__(self, episode_id: str, people: Iterable[str]) -> None:
        super().__init__(
            f"{', '.join(sorted(people))} may have started episode {episode_id}; a second person "
            "approves its calls: sign in as another subject, or use a key that neither the one who"
            " started it nor the creator of that key created, or set self_approval in the policy",
            episode_id=episode_id,
        )


class NotAMember(PermissionDenied):
    def __init__(self, label: str, name: str, own: Iterable[str]) -> None:
        theirs = ", ".join(sorted(own)) or "none"
        super().__init__(
            f"labels.{label} is {name[:100]}, and your key or token has {theirs}; leave the label"
            f" out, or have an admin create a key with the {label}",
            field=f"labels.{label}",
        )


class NothingToApprove(FailedPrecondition):
    def __init__(self, episode_id: str, turn: int, call_index: int) -> None:
        super().__init__(
            f"call {call_index} of turn {turn} of episode {episode_id} does not wait for approval",
            episode_id=episode_id,
        )


class InvalidResults(InvalidArgument):
    """The results of the caller's functions are malformed."""


class NothingToAnswer(FailedPrecondition):
    def __init__(self, episode_id: str, turn: int) -> None:
        super().__init__(
            f"no calls of turn {turn} of episode {episode_id} wait for your results",
            episode_id=episode_id,
        )


class ResultsConflict(AlreadyExists):
    def __init__(self, episode_id: str, turn: int) -> None:
        super().__init__(
            f"the calls of turn {turn} of episode {episode_id} were answered before, with other "
            "results; those stay",
            episode_id=episode_id,
        )


class InvalidAttachments(InvalidArgument):
    """The files differ from the request's statements, or are too many."""


class UnsupportedAttachment(InvalidArgument):
    def __init__(self, attachment: Attachment, index: int, who: str) -> None:
        kind = attachment.kind.value
        super().__init__(
            f"{attachment.placeholder}: {who}; leave it out, or have a tool of kind llm with a"
            f" model that states takes: [{kind}] (`podium tools list` shows tools, `podium policies"
            " explain` why one is not allowed)",
            attachment=index,
            media_type=attachment.media_type,
        )


class FilesFull(ResourceExhausted):
    def __init__(self, files: int, files_max: int, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(
            f"with these attachments your tenant would keep {files:,} files of at most"
            f" {files_max:,}, and {size_bytes:,} bytes of at most {size_bytes_max:,}; send fewer or"
            " smaller ones, or ask the platform's admin to forget old episodes"
            " (EPISODES_WORKER_KEEP_EPISODES_DAYS) or to allow more (`podium limits set`,"
            " or for all tenants EPISODES_FILES_PER_TENANT and EPISODES_FILE_BYTES_PER_TENANT)",
            files=files,
            files_max=files_max,
            size_bytes=size_bytes,
            size_bytes_max=size_bytes_max,
            # Nothing changes within a client's retries.
            retryable="false",
        )


RETRY_AFTER_S = 1


class InvalidDirectCall(InvalidArgument):
    """The request cannot become a call."""


class DirectCallNotFound(NotFound):
    def __init__(self, call_id: str) -> None:
        super().__init__(f"there is no direct call {call_id}", call_id=call_id)


class DirectCallConflict(AlreadyExists):
    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"direct call {call_id} was started with another spec; use a new id", call_id=call_id
        )


class ToolDenied(PermissionDenied):
    def __init__(self, tool: str, why: str) -> None:
        super().__init__(f"{tool} is not allowed: {why}", tool=tool)


class ApprovalRequired(PermissionDenied):
    def __init__(self, tool: str) -> None:
        super().__init__(
            f"calls of {tool} wait for a person's approval, and only an episode waits: name the"
            " tool in podium.tools of a request to an orchestrator",
            tool=tool,
        )


class TooManyDirectCalls(ResourceExhausted):
    def __init__(self, running_limit: int) -> None:
        super().__init__(
            f"your tenant may have {running_limit} direct calls in flight and does; wait until one"
            " ends, or ask the platform's admin for more (`podium limits set`)",
            running_limit=running_limit,
            retry_after_s=RETRY_AFTER_S,
        )


class InvalidFeedback(InvalidArgument):
    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}", param=field)


class FeedbackConflict(AlreadyExists):
    def __init__(self, episode_id: str, feedback_id: str) -> None:
        super().__init__(
            f"feedback {feedback_id} of episode {episode_id} says something else; use a new id",
            episode_id=episode_id,
        )


class TooMuchFeedback(ResourceExhausted):
    def __init__(self, episode_id: str, maximum: int) -> None:
        super().__init__(
            f"episode {episode_id} has {maximum} feedbacks and takes no more",
            episode_id=episode_id,
        )


class InvalidWebhook(InvalidArgument):
    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}", param=field)


class TooManyWebhooks(ResourceExhausted):
    def __init__(self, maximum: int) -> None:
        super().__init__(f"your tenant has {maximum} webhooks; delete one first")


class WebhookNotFound(NotFound):
    def __init__(self, webhook_id: str, what: str = "") -> None:
        super().__init__(what or f"there is no webhook {webhook_id}", webhook_id=webhook_id)


# Errors that pass by themselves; any other is the same at the next attempt.
TRANSIENT = (Unavailable, DeadlineExceeded, ResourceExhausted, Aborted)
FAULTS_MAX = 50
# By what met them, in this process. Attempts do not count them: an outage makes many.
_faults: LRUCache[str, int] = LRUCache(10_000)


def faults_of(name: str) -> int:
    _faults[name] = _faults.get(name, 0) + 1
    return _faults[name]


class InvalidEvaluation(InvalidArgument):
    """The request cannot become a run of an evaluation."""


class UnpricedArm(FailedPrecondition):
    def __init__(self, arm: str, model: str, sku: str) -> None:
        priced = f"SKU {sku}" if sku else "it has no SKU"
        super().__init__(
            f"arm {arm}: its orchestrator {model} has no price ({priced}), so its cost would be"
            " unknown; import one with `podium prices import`",
            model=model,
        )


class TooManyEvaluations(ResourceExhausted):
    def __init__(self, count: int) -> None:
        super().__init__(
            f"your tenant stores {count:,} runs of evaluations, as many as it may; ask the"
            " platform's admin to forget old ones (EPISODES_WORKER_KEEP_EVALUATIONS_DAYS) or to"
            " allow more (EPISODES_EVALUATIONS_PER_TENANT)",
            retryable="false",
        )


class EvaluationNotFound(NotFound):
    def __init__(self, evaluation_id: str) -> None:
        super().__init__(
            f"there is no evaluation {evaluation_id[:100]}; see GET /v1/evaluations",
            evaluation_id=evaluation_id,
        )


class EvaluationReportNotFound(NotFound):
    def __init__(self, evaluation_id: str) -> None:
        super().__init__(
            f"no figures of run {evaluation_id} are stored; `podium eval report {evaluation_id}`"
            " computes and stores them",
            evaluation_id=evaluation_id,
        )


class InvalidEvaluationReport(InvalidArgument):
    def __init__(self, fault: str) -> None:
        super().__init__(f"report_json {fault}; give a JSON object", param="report_json")


class TrialNotFound(NotFound):
    def __init__(self, evaluation_id: str, place: int) -> None:
        super().__init__(
            f"evaluation {evaluation_id} has no trial {place}; see its trials",
            evaluation_id=evaluation_id,
        )


class TrialNotEnded(FailedPrecondition):
    def __init__(self, evaluation_id: str, place: int) -> None:
        super().__init__(
            f"the episode of trial {place} of evaluation {evaluation_id} has not ended; record the"
            " verdict after that",
            evaluation_id=evaluation_id,
        )


class EvaluationConflict(AlreadyExists):
    def __init__(self, evaluation_id: str) -> None:
        super().__init__(
            f"evaluation {evaluation_id} was created with other content; use a new id",
            evaluation_id=evaluation_id,
        )


class AnotherIsLive(FailedPrecondition):
    def __init__(self, evaluation_id: str) -> None:
        super().__init__(
            f"evaluation {evaluation_id} of live traffic is running, and two would mix their arms;"
            " stop it first",
            evaluation_id=evaluation_id,
        )

"""What can be wrong with an episode."""

from collections.abc import Iterable

from podium_kit.rpc.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)


class InvalidEpisode(InvalidArgument):
    """The request cannot become an episode."""


class EpisodeNotFound(NotFound):
    """No such episode, for this tenant."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(f"there is no episode {episode_id}", episode_id=episode_id)


class EpisodeConflict(AlreadyExists):
    """The id is taken by an episode with another spec."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} was started with another spec; use a new id",
            episode_id=episode_id,
        )


class StartTooLate(DeadlineExceeded):
    """What an episode needs to start answered when its caller had nearly stopped waiting."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} was not started: a service answered too late; "
            "send the same request again",
            episode_id=episode_id,
        )


class GroupConflict(AlreadyExists):
    """The place in the group is taken by another episode."""

    def __init__(self, group_id: str, sample_index: int) -> None:
        super().__init__(
            f"sample {sample_index} of group {group_id} is another episode", group_id=group_id
        )


class TooManyRunning(ResourceExhausted):
    """The tenant runs as many episodes as it may."""

    def __init__(self, running_limit: int) -> None:
        super().__init__(
            f"your tenant may run {running_limit} episodes at once and does; wait until one ends, "
            "cancel one, or ask the platform's admin for more",
            running_limit=running_limit,
        )


class ModelNotFound(NotFound):
    """No orchestrator model of that name."""

    def __init__(self, model: str, known: list[str]) -> None:
        super().__init__(
            f"there is no orchestrator model {model}; known are {', '.join(known)}", model=model
        )


class EpisodeNotFinished(FailedPrecondition):
    """The trajectory exists once the episode has ended."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} still runs; watch it, or cancel it", episode_id=episode_id
        )


class DeadLetterNotFound(NotFound):
    """No record of that id is kept aside, for this tenant."""

    def __init__(self, record_id: str) -> None:
        super().__init__(
            f"no record {record_id[:100]} is kept aside, and none was published; "
            "`podium trajectories dead-letters` lists them",
            record_id=record_id[:100],
        )


class SelfApproval(PermissionDenied):
    """The person who started an episode wants to approve one of its calls."""

    def __init__(self, episode_id: str, people: Iterable[str]) -> None:
        super().__init__(
            f"{', '.join(sorted(people))} may have started episode {episode_id}; a second person "
            "approves its calls: sign in as another subject, or use a key that neither the one who"
            " started it nor the creator of that key created, or set self_approval in the policy",
            episode_id=episode_id,
        )


class NotAMember(PermissionDenied):
    """A label names a team or an agent that the caller does not belong to."""

    def __init__(self, label: str, name: str, own: Iterable[str]) -> None:
        theirs = ", ".join(sorted(own)) or "none"
        super().__init__(
            f"labels.{label} is {name[:100]}, and your key or token has {theirs}; leave the label"
            f" out, or have an admin create a key with the {label}",
            field=f"labels.{label}",
        )


class NothingToApprove(FailedPrecondition):
    """No such call waits for approval."""

    def __init__(self, episode_id: str, turn: int, call_index: int) -> None:
        super().__init__(
            f"call {call_index} of turn {turn} of episode {episode_id} does not wait for approval",
            episode_id=episode_id,
        )


class InvalidResults(InvalidArgument):
    """What the caller says its functions gave cannot be taken."""


class NothingToAnswer(FailedPrecondition):
    """No calls of that turn wait for the episode's caller."""

    def __init__(self, episode_id: str, turn: int) -> None:
        super().__init__(
            f"no calls of turn {turn} of episode {episode_id} wait for your results",
            episode_id=episode_id,
        )


class ResultsConflict(AlreadyExists):
    """The calls were answered before, with other results."""

    def __init__(self, episode_id: str, turn: int) -> None:
        super().__init__(
            f"the calls of turn {turn} of episode {episode_id} were answered before, with other "
            "results; those stay",
            episode_id=episode_id,
        )

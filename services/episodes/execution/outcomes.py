"""Inputs and outcomes of the executor: ids and small facts.

They hold no transcript: a workflow's history would grow with the square of the turns. Text stays
in the step log and is found again by episode id and turn.
"""

from dataclasses import dataclass, field

from episodes.models import StopReason


@dataclass(frozen=True)
class ChildCall:
    """A call of a tool of kind podium, and the episode that answers it within a time.

    `admission_s` bounds the time until it is an episode.
    """

    episode_id: str
    parent_id: str
    turn: int
    call_index: int
    time_limit_s: float
    admission_s: float = 60.0


@dataclass(frozen=True)
class EpisodeResult:
    """The end of an episode; the message explains an end without an answer."""

    stop_reason: str
    message: str = ""


@dataclass(frozen=True)
class Approval:
    turn: int
    call_index: int
    approved: bool
    actor: str
    reason: str = ""


@dataclass(frozen=True)
class TurnInput:
    """A run of turns. `approvals` decides calls by index; others are not decided yet.

    `decided` names who decided and why; a call that was not decided in time is not in it.
    `children` are the indexes of calls that episodes of their own answer, `ended` how those
    episodes ended, by index: empty while they run. `answered` is set once the caller's results
    of the turn are stored. `run_to` is the last turn of the run, 0: this one alone. A run that
    `finishes` judges and finishes the episode; one that is `resumed` follows another worker's.
    `deadline` is the episode's, in seconds since 1970; 0: its caller keeps the time.
    """

    episode_id: str
    turn: int
    last: bool = False
    approvals: dict[str, bool] = field(default_factory=dict)
    decided: dict[str, Approval] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    ended: dict[str, EpisodeResult] = field(default_factory=dict)
    answered: bool = False
    run_to: int = 0
    finishes: bool = False
    resumed: bool = False
    deadline: float = 0.0


@dataclass(frozen=True)
class Finished:
    """The episode ends. Once it is `settled`, its costs, trajectory and outbox rows are stored.

    `turn` is the last turn, `failure` the FailureKind where it is not the usual one of the stop
    reason, `budget_id` the budget that rejected the last call.
    """

    stop_reason: StopReason
    message: str = ""
    failure: str = ""
    budget_id: str = ""
    turn: int = 0
    settled: bool = False


@dataclass(frozen=True)
class Waiting:
    """Calls of a turn wait for a person (`pending`, by index), for children or for the caller.

    `others` is set where the turn has calls to make beside its children.
    """

    turn: int
    pending: tuple[int, ...] = ()
    children: tuple[ChildCall, ...] = ()
    others: bool = False
    asks_caller: bool = False


@dataclass(frozen=True)
class Released:
    """Another worker, or a workflow, continues after the turn."""

    turn: int
    reason: str = ""


Outcome = Finished | Waiting | Released
CANCELLED = Finished(StopReason.CANCELLED)
OUT_OF_TIME = Finished(StopReason.DEADLINE, "the episode's time limit has passed")


def first_turn(episode_id: str, turn_limit: int) -> TurnInput:
    return TurnInput(episode_id, 1, last=turn_limit == 1, run_to=turn_limit, finishes=True)

"""Inputs and outcomes of turns, as the executor, the queue and the workflow exchange them.

They hold ids and small facts, never a transcript: a workflow's history would grow with the square
of the turns. Text stays in the step log and is found again by episode id and turn.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ChildCall:
    """A call of a tool of kind podium, and the episode that answers it within a time.

    `admission_s` is how long it may wait to become an episode.
    """

    episode_id: str
    parent_id: str
    turn: int
    call_index: int
    time_limit_s: float
    admission_s: float = 60.0


@dataclass(frozen=True)
class EpisodeResult:
    """How an episode ended; the message says why when it gave no answer."""

    stop_reason: str
    message: str = ""


@dataclass(frozen=True)
class Approval:
    """A person's decision on one waiting call."""

    turn: int
    call_index: int
    approved: bool
    actor: str
    reason: str = ""


@dataclass(frozen=True)
class TurnInput:
    """Asks for one turn. `approvals` decides calls by index; others are not decided yet.

    `decided` says who took a decision and why; a call not decided in time is not in it.
    `children` are the indexes of calls that episodes of their own answer, `ended` how those
    episodes ended, by index: empty while they run. `answered` says that the caller's results
    of the turn are stored. `run_to` is the last turn to take before the workflow is asked again,
    0: this one alone; `finishes` says that a run that ends the episode judges and finishes it;
    `resumed` that a worker may have begun the turn before the workflow's first attempt.
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


@dataclass(frozen=True)
class TurnResult:
    """What a turn, or a run of turns up to `turn`, came to.

    `stop` is empty while the episode goes on, otherwise a StopReason. `pending`
    holds the indexes of calls that wait for approval. `children` are the calls that episodes
    of their own answer; `others` says whether the turn has more calls to make meanwhile.
    `asks_caller` says that the caller is to run some. `failure` is the FailureKind of a stop
    that is not the usual one of its reason, `budget_id` the budget that rejected its call.
    `finished` says that the episode is settled and published.
    """

    stop: str = ""
    message: str = ""
    failure: str = ""
    pending: list[int] = field(default_factory=list)
    children: list[ChildCall] = field(default_factory=list)
    others: bool = False
    asks_caller: bool = False
    turn: int = 0
    finished: bool = False
    budget_id: str = ""

    @property
    def waits(self) -> bool:
        """Whether the next turn needs a person, a child or the caller before."""
        return bool(self.pending or self.children or self.asks_caller)


# What the clock says, whoever looks at it.
OUT_OF_TIME = TurnResult(stop="deadline", message="the episode's time limit has passed")


@dataclass(frozen=True)
class FinishInput:
    """Asks to settle, end and publish an episode.

    `unjudged_reason` says why a check could not be run at all, `failure` and `budget_id` as in
    TurnResult.
    """

    episode_id: str
    stop_reason: str
    message: str = ""
    unjudged_reason: str = ""
    failure: str = ""
    budget_id: str = ""

    @classmethod
    def of(cls, episode_id: str, ending: TurnResult, unjudged_reason: str = "") -> "FinishInput":
        """As the last turn ended it."""
        return cls(
            episode_id,
            ending.stop,
            ending.message,
            unjudged_reason,
            ending.failure,
            ending.budget_id,
        )


@dataclass(frozen=True)
class JudgeInput:
    """Asks to judge the answer of an episode."""

    episode_id: str

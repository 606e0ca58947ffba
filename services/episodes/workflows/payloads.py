from dataclasses import dataclass, field

from episodes.execution.outcomes import ChildCall, Finished, Outcome, Waiting
from episodes.models import StopReason


@dataclass(frozen=True)
class TurnResult:
    """The outcome of a run of turns up to `turn`, as the workflow stores it.

    `stop` is a StopReason, or empty while the episode continues. `pending`
    holds the indexes of calls that wait for approval. `children` are the calls that episodes
    of their own answer; `others` is set where the turn has more calls to make meanwhile.
    `asks_caller` is set where the caller runs some. `failure` is the FailureKind of a stop
    that is not the usual one of its reason, `budget_id` the budget that rejected its call.
    `finished` is set once the episode is settled and published.
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

    @classmethod
    def of(cls, outcome: Outcome) -> "TurnResult":
        if isinstance(outcome, Finished):
            return cls(
                stop=outcome.stop_reason,
                message=outcome.message,
                failure=outcome.failure,
                turn=outcome.turn,
                finished=outcome.settled,
                budget_id=outcome.budget_id,
            )
        if isinstance(outcome, Waiting):
            return cls(
                pending=list(outcome.pending),
                children=list(outcome.children),
                others=outcome.others,
                asks_caller=outcome.asks_caller,
                turn=outcome.turn,
            )
        return cls(turn=outcome.turn)


# The workflow's timer and the executor's clock end an episode alike.
OUT_OF_TIME = TurnResult(stop="deadline", message="the episode's time limit has passed")


@dataclass(frozen=True)
class EpisodeInput:
    episode_id: str
    turn_limit: int
    time_limit_s: float
    approval_timeout_s: float = 3600.0
    # Whether its answer is judged.
    checked: bool = False
    # The call a child answers; it is not admitted yet.
    call: ChildCall | None = None
    # How it has to end, where the worker before could not end it.
    ending: TurnResult | None = None
    # Whether a worker took its turns before there was a workflow.
    resumed: bool = False


@dataclass(frozen=True)
class FinishInput:
    """Asks to settle, end and publish an episode.

    `unjudged_reason` names why the check could not be run; `failure` and `budget_id` are those of
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
        return cls(
            episode_id,
            ending.stop,
            ending.message,
            unjudged_reason,
            ending.failure,
            ending.budget_id,
        )

    @property
    def end(self) -> Finished:
        return Finished(
            StopReason(self.stop_reason),
            self.message,
            failure=self.failure,
            budget_id=self.budget_id,
        )


@dataclass(frozen=True)
class JudgeInput:
    episode_id: str

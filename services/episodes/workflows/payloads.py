"""What passes between the workflow and its activities: ids and small facts.

Never a transcript: history would grow with the square of the turns. Text stays
in the step log and is found again by episode id and turn.
"""

from dataclasses import dataclass

from episodes.execution.outcomes import (
    ChildCall,
    TurnResult,
)


@dataclass(frozen=True)
class EpisodeInput:
    """Starts an episode's workflow."""

    episode_id: str
    turn_limit: int
    time_limit_s: float
    approval_timeout_s: float = 3600.0
    # Whether its answer is judged.
    checked: bool = False
    # The call a child answers; it is not admitted yet.
    call: ChildCall | None = None
    # How it has to end, where whoever took its turns before could not end it.
    ending: TurnResult | None = None
    # Whether a worker took its turns before there was a workflow.
    resumed: bool = False

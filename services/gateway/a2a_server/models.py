from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gateway.models import Outcome

PATH = "/v1/a2a"
CARD_PATH = "/.well-known/agent-card.json"
# Says to which conversation of agents an episode belongs.
CONTEXT_LABEL = "a2a_context"


class TaskProgress(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"


@dataclass(frozen=True)
class TaskRecord:
    id: str
    context_id: str
    task: str
    standing: TaskProgress
    outcome: Outcome
    created: datetime
    # When it ended, or else when it began.
    changed: datetime

    @property
    def ended(self) -> bool:
        return self.standing is TaskProgress.FINISHED

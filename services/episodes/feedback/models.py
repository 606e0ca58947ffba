"""What somebody says of an episode."""

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True)
class Feedback:
    """A score from 0 to 1, a label, a comment, or several of them."""

    id: str
    score: float | None
    label: str
    comment: str
    created_by: str
    create_time: datetime | None = None

    def identified(self) -> "Feedback":
        """With an id that the same feedback of the same subject has again."""
        if self.id:
            return self
        said = json.dumps([self.created_by, self.score, self.label, self.comment])
        return replace(self, id=hashlib.sha256(said.encode()).hexdigest()[:32])

    def says_the_same(self, other: "Feedback") -> bool:
        return replace(self, create_time=None) == replace(other, create_time=None)

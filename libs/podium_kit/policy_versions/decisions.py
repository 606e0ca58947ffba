"""A gate's decision about a version, as promotion reads it.

The gate writes more (`training/podium_training/gate`): every number behind its verdict.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from podium_kit.policy_versions.names import VersionName

FOLDER = "decisions"


class Verdict(StrEnum):
    PROMOTE = "promote"
    KEEP = "keep"
    """The promoted policy stays; for good."""
    CONTINUE = "continue"
    """Too early to tell: evaluate more pairs and look again."""


class Decided(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    candidate: str
    promoted: str
    """"" when the candidate was compared with the model the run started from."""
    verdict: Verdict
    reasons: tuple[str, ...]


class RecordedDecision(Decided):
    """A decision with the numbers behind it, as far as its gate wrote them."""

    look: int = 0
    pairs: int = 0
    rules: Mapping[str, str | float | None] = {}
    bounds: Mapping[str, Mapping[str, float]] = {}
    """Mean gain with its lower and upper bound, by measure."""
    figures: Mapping[str, Mapping[str, str | float | None]] = {}
    """Figures by "candidate" and "promoted"."""


def decision_file(root: Path, candidate: str) -> Path:
    return root / FOLDER / f"{VersionName.parse(candidate)}.json"


def read_decided(root: Path, candidate: str) -> RecordedDecision | None:
    try:
        text = decision_file(root, candidate).read_text(encoding="utf-8")
        found = RecordedDecision.model_validate_json(text)
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
    # A file copied to another version's place says nothing about that one.
    return found if found.candidate == candidate else None

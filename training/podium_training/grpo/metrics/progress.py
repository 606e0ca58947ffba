"""The progress of a run, between its steps as well: a small file beside its metrics."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "progress.json"


@dataclass(frozen=True)
class Progress:
    step: int
    steps: int
    groups: int
    """That wait for the next step."""
    groups_per_step: int
    offsets: Mapping[int, int]
    """The next record of each partition of the stream; what is before it was learnt or dropped."""
    left_out: int = 0
    """Groups and records that were not used since the last step."""
    reasons: str = ""
    """Why they were not, and what to change."""

    def has_read(self, ends: Mapping[int, int]) -> bool:
        """Returns whether the stream was read up to these ends, and the steps that follow were
        taken.
        """
        return all(self.offsets.get(partition, 0) >= end for partition, end in ends.items())


def write_progress(output: Path, progress: Progress) -> None:
    """Replaces the file. It may be lost with the machine: the checkpoint is what a run needs."""
    partial = output / f".{FILE}"
    partial.write_text(json.dumps(asdict(progress)), encoding="utf-8")
    partial.replace(output / FILE)


def read_progress(output: Path) -> Progress | None:
    try:
        found = json.loads((output / FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    offsets = {int(partition): offset for partition, offset in found.pop("offsets").items()}
    return Progress(offsets=offsets, **found)

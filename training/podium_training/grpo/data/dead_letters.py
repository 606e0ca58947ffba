"""Records the trainer rejected, dead-lettered: `rejected.jsonl` of a run, a JSON object per record.

A partition is read in order, so what a resumed run reads again is
before the last place that was kept, and is not kept twice.
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path

from podium_training.grpo.data.episodes import Reason
from podium_training.grpo.data.stream import LogRecord

REJECTED = "rejected.jsonl"
# Nobody allowed these to be copied; their place on the topic is known.
NOT_COPIED = {Reason.NO_CONSENT}


class RejectedRecords:
    """The file in the run's output folder, written by the one process that reads the topic."""

    def __init__(self, output: Path, topic: str) -> None:
        self._path = output / REJECTED
        self._topic = topic
        self._last = _last_offsets(self._path)

    def forget(self, partitions: Iterable[int]) -> None:
        """Their offsets begin anew."""
        for partition in partitions:
            self._last.pop(partition, None)

    def keep(self, record: LogRecord, reason: Reason, detail: str) -> None:
        """Adds the record as it was on the topic: `record` is its value in base64.

        It is null where the tenant has not allowed training.
        """
        if record.offset <= self._last.get(record.partition, -1):
            return
        self._last[record.partition] = record.offset
        copied = reason not in NOT_COPIED
        line = {
            "topic": self._topic,
            "partition": record.partition,
            "offset": record.offset,
            "key": record.key.decode(errors="replace"),
            "headers": dict(record.headers),
            "reason": reason,
            "detail": detail,
            "record": base64.b64encode(record.value).decode() if copied else None,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _last_offsets(path: Path) -> dict[int, int]:
    """By partition. What a kill left of the last line is cut off, and its record kept again."""
    if not path.exists():
        return {}
    whole, end, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        path.write_bytes(whole + end)
    lines = [json.loads(line) for line in whole.splitlines()]
    return {line["partition"]: line["offset"] for line in lines}

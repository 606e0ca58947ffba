"""Records the trainer rejected, dead-lettered: `rejected.jsonl` of a run, a JSON object per record.

A partition is read in order, so what a resumed run reads again is
before the last place that was kept, and is not kept twice.
"""

import base64
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.episodes import Reason
from podium_training.grpo.data.stream import LogRecord

REJECTED = "rejected.jsonl"
# A topic full of records of another version must not fill the disk that checkpoints go to.
RECORDS_BYTES_MAX = 1 << 30


class RejectedRecords:
    """The file in the run's output folder, written by the one process that reads the topic."""

    def __init__(self, output: Path, topic: str) -> None:
        self._path = output / REJECTED
        self._topic = topic
        self._last = _last_offsets(self._path)

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._last.pop(partition, None)

    def keep(self, record: LogRecord, reason: Reason, detail: str) -> None:
        """Adds the record as it was on the topic: `record` is its value in base64.

        It is null unless the record says that its tenant allows training, and from 1 GiB of the
        file on: its place is known.
        """
        if record.offset <= self._last.get(record.partition, -1):
            return
        self._last[record.partition] = record.offset
        # Another version's field of that number may mean something else.
        copied = reason is not Reason.OTHER_SCHEMA and _allows_training(record.value)
        with self._path.open("a", encoding="utf-8") as file:
            copied = copied and file.tell() < RECORDS_BYTES_MAX
            file.write(json.dumps(self._line(record, reason, detail, copied)) + "\n")

    def _line(self, record: LogRecord, reason: Reason, detail: str, copied: bool) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "partition": record.partition,
            "offset": record.offset,
            "key": record.key.decode(errors="replace"),
            "headers": dict(record.headers),
            "reason": reason,
            "detail": detail,
            "record": base64.b64encode(record.value).decode() if copied else None,
        }


def _allows_training(value: bytes) -> bool:
    try:
        return pb.TrajectoryRecord.FromString(value).trajectory.training_consent
    except DecodeError:
        return False


def _last_offsets(path: Path) -> dict[int, int]:
    """Returns offsets by partition. An incomplete last line is cut off, and its record written
    again.
    """
    found: dict[int, int] = {}
    if not path.exists():
        return found
    size_bytes = 0
    # Line by line: the file holds whole records, and may be larger than the memory.
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                kept = json.loads(line)
                found[kept["partition"]] = kept["offset"]
                size_bytes += len(line)
    os.truncate(path, size_bytes)
    return found

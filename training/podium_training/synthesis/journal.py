"""Every reply of a run, one JSON a line: a run that is started again asks for none twice.

A line's key is a digest of the whole request, so whatever changes the question (another
prompt, schema, model, seed or earlier reply) asks anew.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from podium_kit.client.errors import UsageError


class Journal:
    """Replies by the digest of their request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies = dict(_read(path))

    def __len__(self) -> int:
        return len(self._replies)

    def find(self, request: dict[str, Any]) -> dict[str, Any] | None:
        return self._replies.get(_digest(request))

    def add(self, request: dict[str, Any], reply: dict[str, Any]) -> None:
        key = _digest(request)
        self._replies[key] = reply
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "reply": reply}, ensure_ascii=False) + "\n")


def _read(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Whole lines; what a killed run left of its last one is cut off. Raises UsageError."""
    if not path.exists():
        return []
    whole, end, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        os.truncate(path, len(whole + end))
    replies = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            found = json.loads(line)
            replies.append((str(found["key"]), dict(found["reply"])))
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{path}, line {number} is no reply of a model"
            raise UsageError(problem, "drop the line, and its question is asked anew") from error
    return replies


def _digest(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

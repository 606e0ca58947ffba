import json
import os
from pathlib import Path


class EffectsLog:
    """A line for each order, on disk before anybody hears of it; several processes may write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def place(self, order: str) -> None:
        os.write(self._file, f"{json.dumps(order)}\n".encode())

    def close(self) -> None:
        os.close(self._file)

"""A temporary folder of this process; those of processes that were killed are removed.

Its owner holds a lock on it, which ends with the owner however that ends.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "podium-sandbox-"
# A folder is made first and locked then.
YOUNG_S = 60.0


class OwnFolder:
    """A folder that exists until `close`; all of its content can be made again."""

    def __init__(self) -> None:
        remove_abandoned()
        self._make()

    def write(self, name: str, data: bytes) -> Path:
        """The file; in another folder where a cleaner of temporary files took this one."""
        if not self.path.is_dir():
            self.close()
            self._make()
        file = self.path / name
        file.write_bytes(data)
        return file

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _make(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)


def remove_abandoned() -> None:
    """Folders whose owner is dead, if they are ours to remove."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > YOUNG_S and not _is_owned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_owned(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

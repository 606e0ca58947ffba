"""How many files, and how many bytes of them, a tenant may keep."""

import sys
from dataclasses import dataclass

from episodes.attachments.errors import FilesFull


@dataclass(frozen=True)
class FileQuota:
    """The most that a tenant keeps; every episode and direct call keeps its files for itself."""

    files: int
    size_bytes: int

    def require_room(self, files: int, size_bytes: int) -> None:
        """Raises FilesFull when a tenant would keep so many."""
        if files > self.files or size_bytes > self.size_bytes:
            raise FilesFull(files, self.files, size_bytes, self.size_bytes)


# The worker's: what it starts itself brings no files.
UNLIMITED = FileQuota(sys.maxsize, sys.maxsize)

import sys
from dataclasses import dataclass

from episodes.errors import FilesFull


@dataclass(frozen=True)
class FileQuota:
    """The quota of one tenant; every episode and direct call stores its own files."""

    files: int
    size_bytes: int

    def of_tenant(self, own: "OwnQuota") -> "FileQuota":
        """Returns the quota of a tenant that has one of its own, or a part of it."""
        return FileQuota(
            self.files if own.files is None else own.files,
            self.size_bytes if own.size_bytes is None else own.size_bytes,
        )

    def require_room(self, files: int, size_bytes: int) -> None:
        if files > self.files or size_bytes > self.size_bytes:
            raise FilesFull(files, self.files, size_bytes, self.size_bytes)


@dataclass(frozen=True)
class OwnQuota:
    """Limits that a platform admin set for one tenant; None: the platform's default."""

    files: int | None = None
    size_bytes: int | None = None


AS_ALL_OTHERS = OwnQuota()
# The worker's: what it starts itself brings no files.
UNLIMITED = FileQuota(sys.maxsize, sys.maxsize)

"""The work folder as its supervisor handles it: packed, unpacked, measured and looked through.

All of it happens inside the sandbox, so a hostile tree of links and odd modes can do no
harm; outside a packed workspace is bytes that no one opens.
"""

import io
import mimetypes
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

DEFAULT_MEDIA_TYPE = "application/octet-stream"
Snapshot = dict[str, tuple[int, int]]


def unpack(packed: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        # Python 3.11.2, Debian 12's, has no filters.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(folder)  # noqa: S202  inside the sandbox, and filtered where Python can


def pack(folder: Path) -> bytes:
    """Everything below the folder but sockets, pipes and devices."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in entries(folder):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
                archive.add(path, path.relative_to(folder), recursive=False)
    return target.getvalue()


def open_up(folder: Path) -> None:
    """Makes everything readable to us again, whatever the code closed."""
    for path in entries(folder):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def entries(folder: Path) -> Iterator[Path]:
    """Everything below, parents first, following no link and entering closed folders too."""
    folder.chmod(stat.S_IRWXU)
    for path in sorted(folder.iterdir()):
        yield path
        if stat.S_ISDIR(path.lstat().st_mode):
            yield from entries(path)


def size_bytes(folder: Path) -> int:
    """Bytes of all files as their readers see them: a hole counts like what could fill it."""
    statuses = (path.lstat() for path in entries(folder))
    return sum(status.st_size for status in statuses if stat.S_ISREG(status.st_mode))


def snapshot(folder: Path) -> Snapshot:
    """Modification time in nanoseconds and size by name of the files at the top."""
    return {path.name: _version(path) for path in _plain_files(folder)}


def changed(folder: Path, before: Snapshot) -> list[Path]:
    """Files at the top that are new or different since the snapshot, in name order.

    Links and special files are left out: what they name is not theirs to give.
    """
    return [path for path in _plain_files(folder) if before.get(path.name) != _version(path)]


def media_type(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or DEFAULT_MEDIA_TYPE


def _version(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_mtime_ns, status.st_size


def _plain_files(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in files if stat.S_ISREG(path.lstat().st_mode))

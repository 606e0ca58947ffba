"""Folders for the files of code: one per run, or one per episode that lasts between runs."""

import hashlib
import mimetypes
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from tool_adapters.adapter import OutputFile
from tool_adapters.sandbox.launch import UNPRIVILEGED_ID

FILES_MAX = 20
DEFAULT_MEDIA_TYPE = "application/octet-stream"


class Workspaces:
    """Workspaces under one folder. Callers are trusted, what is in the files is not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A workspace for one run, gone afterwards."""
        path = Path(mkdtemp(dir=self._folder, prefix="run-"))
        _give_away(path)
        try:
            yield path
        finally:
            _remove(path)

    def of_episode(self, tenant: str, episode_id: str) -> Path:
        """The workspace of an episode; made when it does not exist."""
        path = self._episode_path(tenant, episode_id)
        path.mkdir(exist_ok=True, mode=0o700)
        _give_away(path)
        return path

    def close_episode(self, tenant: str, episode_id: str) -> None:
        """Removes an episode's workspace, if there is one."""
        _remove(self._episode_path(tenant, episode_id))

    def _episode_path(self, tenant: str, episode_id: str) -> Path:
        # Hashed: an id must not become a path, and another tenant's id another place.
        digest = hashlib.sha256(f"{tenant}\0{episode_id}".encode()).hexdigest()
        return self._folder / f"episode-{digest}"


def snapshot(workspace: Path) -> dict[str, int]:
    """Modification time in nanoseconds by name of the files at the top of a workspace."""
    return {path.name: path.lstat().st_mtime_ns for path in _regular_files(workspace)}


def collect(workspace: Path, before: dict[str, int]) -> tuple[OutputFile, ...]:
    """Files that are new or changed since the snapshot, in name order, at most 20.

    Links and special files are left out: they could point anywhere on this machine.
    """
    changed = [path for path in _regular_files(workspace) if _is_changed(path, before)]
    return tuple(_read(path) for path in changed[:FILES_MAX])


def _is_changed(path: Path, before: dict[str, int]) -> bool:
    return before.get(path.name) != path.lstat().st_mtime_ns


def _regular_files(workspace: Path) -> list[Path]:
    files = (path for path in workspace.iterdir() if not path.name.startswith("."))
    return sorted(path for path in files if stat.S_ISREG(path.lstat().st_mode))


def _read(path: Path) -> OutputFile:
    media_type = mimetypes.guess_type(path.name)[0] or DEFAULT_MEDIA_TYPE
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return OutputFile(path.name, media_type, file.read())


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID)


def _remove(path: Path) -> None:
    """Also what the code closed to us: the folders are ours, so they can be opened again."""
    if path.exists():
        for folder, names, _ in os.walk(_opened(path)):
            for name in names:
                _opened(Path(folder, name))
        shutil.rmtree(path)


def _opened(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
    return path

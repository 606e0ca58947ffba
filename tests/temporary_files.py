"""Pytest plugin: a run has one folder for all its temporary files; a green run removes it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

OWNER = "PODIUM_TESTS_RUN"
DATA_PREFIX = "podium-data-"
# A file system in memory, on Linux: a database is made and dropped there with a fifth of the
# processor time that a disk takes, and tests make thousands.
IN_MEMORY = Path("/dev/shm")
IN_MEMORY_BYTES_MIN = 2 * 1024**3
AVAILABLE_BYTES_MIN = 6 * 1024**3

if OWNER not in os.environ:
    # The processes that tests start inherit the folder, and so do pytest-xdist's workers.
    folder = Path(tempfile.mkdtemp(prefix="podium-tests-"))
    # Unlike pytest's usual folder, open to the account that PostgreSQL runs as.
    folder.chmod(0o711)
    os.environ |= {"TMPDIR": str(folder), OWNER: str(os.getpid())}
    tempfile.tempdir = None


@contextmanager
def data_folder(name: str) -> Iterator[Path]:
    """A folder for the data of servers, in memory where there is room for it."""
    with tempfile.TemporaryDirectory(
        prefix=f"{DATA_PREFIX}{os.getpid()}-{name}-", dir=_parent()
    ) as made:
        yield Path(made)


def _parent() -> Path | None:
    """None is the run's folder."""
    if not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK):
        return None
    for left in IN_MEMORY.glob(f"{DATA_PREFIX}*"):
        # Of a run that was killed.
        if not psutil.pid_exists(int(left.name.removeprefix(DATA_PREFIX).partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    free, available = shutil.disk_usage(IN_MEMORY).free, psutil.virtual_memory().available
    has_room = free >= IN_MEMORY_BYTES_MIN and available >= AVAILABLE_BYTES_MIN
    return IN_MEMORY if has_room else None


@contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A folder for servers. Their logs stay in the run's folder, so a failed run can be read."""
    with data_folder(name) as folder:
        try:
            yield folder
        finally:
            for log in folder.rglob("*.log"):
                logs = Path(tempfile.gettempdir()) / "logs"
                kept = logs / folder.name / log.relative_to(folder)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, kept)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and os.environ[OWNER] == str(os.getpid()):
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)

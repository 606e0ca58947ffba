"""Pytest plugin: a run has one folder for all its temporary files; a green run removes it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OWNER = "PODIUM_TESTS_RUN"

if OWNER not in os.environ:
    # The processes that tests start inherit the folder, and so do pytest-xdist's workers.
    folder = Path(tempfile.mkdtemp(prefix="podium-tests-"))
    # Unlike pytest's usual folder, open to the account that PostgreSQL runs as.
    folder.chmod(0o711)
    os.environ |= {"TMPDIR": str(folder), OWNER: str(os.getpid())}
    tempfile.tempdir = None


@contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A folder for servers. Their logs stay in the run's folder, so a failed run can be read."""
    with tempfile.TemporaryDirectory(prefix=f"podium-{name}-") as made:
        folder = Path(made)
        try:
            yield folder
        finally:
            for log in folder.rglob("*.log"):
                kept = folder.parent / "logs" / folder.name / log.relative_to(folder)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, kept)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and os.environ[OWNER] == str(os.getpid()):
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)

"""Pytest plugin: a run has one folder for all its temporary files, and a green run removes it."""

import os
import shutil
import tempfile
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


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and os.environ[OWNER] == str(os.getpid()):
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)

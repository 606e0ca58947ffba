"""vLLM's own virtual environment in the cache: its pins must not meet the platform's."""

import ctypes
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import AsyncFileLock

from podium_kit.embedded.command import CommandFailed, run_command
from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.wheels import cache_dir

VLLM_VERSION = "0.32.0"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALLER = Path(__file__).parents[1] / "packages.py"
# Of the install, until the last package is downloaded.
DOWNLOADING_SHARE = 0.8

Progress = Callable[[str, float], None]
"""Called with what happens now and how much is done, from 0 to 1."""


class VllmNotInstalled(EmbeddedError):
    def __init__(self, directory: Path) -> None:
        super().__init__(f"vLLM is not installed in {directory}: run `make setup`")
        self.directory = directory


class VllmNotInstallable(EmbeddedError):
    """This machine or its network lacks something; the message holds it and how to get it."""


class VllmEnvironment:
    def __init__(self, directory: Path | None = None) -> None:
        # Of these pins and this Python: checkouts with others share the cache.
        key = f"{VLLM_VERSION}-{sys.implementation.cache_tag}-{_pins_digest()[:8]}"
        self.directory = directory or cache_dir() / f"vllm-{key}"
        self._marker = self.directory / "installed"

    @property
    def python(self) -> Path:
        if not self.is_installed():
            raise VllmNotInstalled(self.directory)
        return self._python

    @property
    def _python(self) -> Path:
        return self.directory / "bin" / "python"

    def is_installed(self) -> bool:
        return self._marker.exists()

    async def install(self, progress: Progress) -> None:
        """Install unless it is there; a half install is done again.

        A second installer waits for the first. Raises VllmNotInstallable.
        """
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        async with AsyncFileLock(self.directory.with_name(f"{self.directory.name}.lock")):
            if not self.is_installed():
                await self._install(progress)
        progress("vLLM is installed", 1.0)

    async def _install(self, progress: Progress) -> None:
        _require_libnuma()
        progress("creating vLLM's environment", 0.0)
        shutil.rmtree(self.directory, ignore_errors=True)
        venv = (sys.executable, "-m", "venv", "--without-pip", self.directory)
        await run_command("create vLLM's environment", venv, lambda line: None)
        install = (sys.executable, "-I", INSTALLER, REQUIREMENTS, self._python)
        try:
            await run_command("install vLLM", install, _InstallerProgress(progress).line)
        except CommandFailed as error:
            raise VllmNotInstallable(error.tail.splitlines()[-1]) from error
        # Written last, so that an interrupted install is noticed.
        self._marker.touch()


def _require_libnuma() -> None:
    """vLLM's CPU kernels are linked against it, and its wheel does not carry it."""
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        raise VllmNotInstallable(
            "vLLM needs the library libnuma.so.1: install it (Debian: apt-get install libnuma1)"
        ) from None


class _InstallerProgress:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._begun = self._done = 0

    def line(self, line: str) -> None:
        # It names all large packages before the first one is there.
        self._begun += line.startswith("Downloading ")
        self._done += line.startswith("Downloaded ")
        self._progress(line, DOWNLOADING_SHARE * self._done / max(self._begun, 1))


def _pins_digest() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()

"""vLLM's own virtual environment in the cache: its pins must not meet the platform's."""

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import AsyncFileLock

from podium_kit.embedded.cache import cache_dir
from podium_kit.embedded.command import run_command
from podium_kit.embedded.errors import EmbeddedError

VLLM_VERSION = "0.32.0"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
# Measured: pip spends about two thirds of its time collecting, the rest unpacking.
COLLECTING_SHARE = 0.65

Progress = Callable[[str, float], None]
"""Called with what happens now and how much is done, from 0 to 1."""


class VllmNotInstalled(EmbeddedError):
    def __init__(self, directory: Path) -> None:
        super().__init__(f"vLLM is not installed in {directory}: run `make setup`")
        self.directory = directory


class VllmEnvironment:
    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or cache_dir() / f"vllm-{VLLM_VERSION}"
        self._marker = self.directory / "installed"

    @property
    def python(self) -> Path:
        """The environment's interpreter. Raises VllmNotInstalled."""
        if not self.is_installed():
            raise VllmNotInstalled(self.directory)
        return self._python

    @property
    def _python(self) -> Path:
        return self.directory / "bin" / "python"

    def is_installed(self) -> bool:
        """Whether a whole install of today's pins is there."""
        return self._marker.exists() and self._marker.read_text() == _pins_digest()

    async def install(self, progress: Progress) -> None:
        """Install unless it is there; a half or outdated install is done again.

        A second installer waits for the first. Raises CommandFailed with pip's last lines.
        """
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        async with AsyncFileLock(self.directory.with_name(f"{self.directory.name}.lock")):
            if not self.is_installed():
                await self._install(progress)
        progress("vLLM is installed", 1.0)

    async def _install(self, progress: Progress) -> None:
        progress("creating vLLM's environment", 0.0)
        shutil.rmtree(self.directory, ignore_errors=True)
        venv = (sys.executable, "-m", "venv", self.directory)
        await run_command("create vLLM's environment", venv, lambda line: None)
        follow = _PipProgress(progress, _pin_count())
        # The list is complete: resolving it again could only disagree with it.
        pip = (self._python, "-m", "pip", "install", "--no-deps", "-r", REQUIREMENTS)
        await run_command("install vLLM", pip, follow.line)
        # Written last, so that an interrupted install is noticed.
        self._marker.write_text(_pins_digest())


class _PipProgress:
    """Turns pip's output into steps and a fraction."""

    def __init__(self, progress: Progress, packages: int) -> None:
        self._progress = progress
        self._packages = packages
        self._collected = 0

    def line(self, line: str) -> None:
        if line.startswith(("Collecting ", "Processing ")):
            self._collected += 1
            package = Path(line.split()[1]).name
            fraction = COLLECTING_SHARE * self._collected / self._packages
            self._progress(f"collecting {package}", min(fraction, COLLECTING_SHARE))
        elif line.startswith("Installing collected packages"):
            self._progress(f"unpacking {self._packages} packages", COLLECTING_SHARE)


def _pins_digest() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def _pin_count() -> int:
    return sum("==" in line for line in REQUIREMENTS.read_text().splitlines())

"""SmolLM2-135M-Instruct as a folder that vLLM and torch can load, from its wheel's GGUF file."""

import shutil
from pathlib import Path

from filelock import AsyncFileLock

from podium_kit.embedded.command import run_command
from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.vllm.environment import Progress, VllmEnvironment
from podium_kit.embedded.wheels import cache_dir

MODEL_NAME = "SmolLM2-135M-Instruct"
CONVERSION = Path(__file__).with_name("smollm2_conversion.py")


class ModelNotConverted(EmbeddedError):
    def __init__(self, directory: Path) -> None:
        super().__init__(f"{MODEL_NAME} is not in {directory}: run `make setup`")
        self.directory = directory


class SmolLM2:
    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or cache_dir() / "models" / MODEL_NAME.lower()

    @property
    def directory(self) -> Path:
        if not self.is_converted():
            raise ModelNotConverted(self._directory)
        return self._directory

    def is_converted(self) -> bool:
        return self._directory.exists()

    async def convert(self, environment: VllmEnvironment, progress: Progress) -> None:
        """Convert unless it is done; the folder appears whole or not at all.

        Raises VllmNotInstalled or CommandFailed.
        """
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        async with AsyncFileLock(self._directory.with_name(f"{self._directory.name}.lock")):
            if not self.is_converted():
                await self._convert(environment, progress)
        progress(f"{MODEL_NAME} is ready", 1.0)

    async def _convert(self, environment: VllmEnvironment, progress: Progress) -> None:
        partial = self._directory.with_name(f"{self._directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)

        def step(line: str) -> None:
            # The script announces its steps as "step <fraction> <what>".
            if line.startswith("step "):
                _, fraction, what = line.split(maxsplit=2)
                progress(what, float(fraction))

        argv = [environment.python, CONVERSION, partial]
        await run_command(f"convert {MODEL_NAME}", argv, step)
        partial.rename(self._directory)

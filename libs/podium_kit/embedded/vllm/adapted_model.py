"""SmolLM2 with an adapter merged into its weights: on CPU twice as fast as beside them."""

import hashlib
import shutil
from pathlib import Path

from filelock import AsyncFileLock

from podium_kit.embedded.command import run_command
from podium_kit.embedded.smollm2 import ModelNotConverted, SmolLM2
from podium_kit.embedded.vllm.environment import Progress, VllmEnvironment
from podium_kit.embedded.wheels import cache_dir

MERGE = Path(__file__).with_name("adapter_merge.py")
DIGITS = 12


class AdaptedModel:
    def __init__(self, name: str, adapter: Path, base: SmolLM2 | None = None) -> None:
        """`adapter` is a folder as PEFT saves it. Raises OSError when its weights are missing."""
        self._name = name
        self.adapter = adapter
        self._base = base or SmolLM2()
        with (adapter / "adapter_model.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._directory = cache_dir() / "models" / f"{name}-{digest[:DIGITS]}"

    @property
    def directory(self) -> Path:
        if not self.is_merged():
            raise ModelNotConverted(self._directory)
        return self._directory

    def is_merged(self) -> bool:
        return self._directory.exists()

    async def merge(self, environment: VllmEnvironment, progress: Progress) -> None:
        """Merge unless it is done; the folder appears whole or not at all.

        Raises ModelNotConverted, VllmNotInstalled or CommandFailed.
        """
        base = self._base.directory
        async with AsyncFileLock(self._directory.with_name(f"{self._directory.name}.lock")):
            if not self.is_merged():
                progress(f"merging the adapter of {self._name}", 0.1)
                partial = self._directory.with_name(f"{self._directory.name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                argv = [environment.python, MERGE, base, self.adapter, partial]
                await run_command(f"merge {self._name}", argv, lambda _: None)
                partial.rename(self._directory)
        progress(f"{self._name} is ready", 1.0)

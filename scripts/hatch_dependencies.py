"""Build hook: the distribution depends on what requirements/*.in name."""

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RUNTIME_FILES = ("base.in", "tools.in", "local.in")


class RequirementsHook(MetadataHookInterface):
    """Reads the unpinned runtime requirements, so that they are written once."""

    def update(self, metadata: dict[str, Any]) -> None:
        folder = Path(self.root) / "requirements"
        lines = [
            line for name in RUNTIME_FILES for line in (folder / name).read_text().splitlines()
        ]
        metadata["dependencies"] = [line for line in lines if line and not line.startswith("#")]

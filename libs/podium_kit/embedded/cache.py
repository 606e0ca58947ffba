"""The folder of downloads and conversions: outside the project, shared by its checkouts."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$PODIUM_CACHE_DIR`, else `podium` in the user's cache folder."""
    if configured := os.environ.get("PODIUM_CACHE_DIR"):
        return Path(configured).absolute()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "podium"

"""Whether this machine has what the console's tests need."""

import importlib.util
import shutil

CHROMIUM = shutil.which("chromium") or ""


def available() -> bool:
    return bool(CHROMIUM) and importlib.util.find_spec("playwright") is not None

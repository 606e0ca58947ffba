"""Whether this machine has what the console's tests need."""

import importlib.util
import shutil

CHROMIUM = shutil.which("chromium") or ""


def available() -> bool:
    packages = ("playwright", "axe_playwright_python")
    return bool(CHROMIUM) and all(map(importlib.util.find_spec, packages))

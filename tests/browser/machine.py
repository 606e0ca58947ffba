"""Finds out if this machine has what the console's tests need."""

import importlib.util
import shutil
from pathlib import Path

CHROMIUM = shutil.which("chromium") or ""
MISSING = "tests/browser: they open the console; apt-get install chromium, make console-test"
TESTS = [f"browser/{path.name}" for path in Path(__file__).parent.glob("test_*.py")]


def available() -> bool:
    packages = ("playwright", "axe_playwright_python")
    return bool(CHROMIUM) and all(map(importlib.util.find_spec, packages))

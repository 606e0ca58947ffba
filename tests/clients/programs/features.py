"""What every client is tried with; a program of this folder gives one function a feature.

Runs in the client's own environment: nothing of the project can be imported here.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping

URL, KEY = os.environ.get("PODIUM_BASE_URL", ""), os.environ.get("PODIUM_API_KEY", "")
QUESTION = "What is the capital of France?"
ANSWER = "Paris"
TOOL_QUESTION = "How warm is it at our own station in Oslo?"
TOOL_ANSWER = "It is -3 degrees."
JSON_QUESTION = "Where is Lyon?"
PLACE = {"city": "Lyon", "country": "France"}


def get_weather(city: str) -> str:
    """Weather now at our own stations."""
    check(city, "Oslo")
    return "-3 degrees"


def check(found: object, wanted: object) -> None:
    """Raises AssertionError where something else was found."""
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def report(features: Mapping[str, Callable[[], None]]) -> None:
    """Tries every feature, and prints a line of JSON for each: its name, and what went wrong."""
    for name, attempt in features.items():
        problem = ""
        try:
            attempt()
        except Exception as error:  # noqa: BLE001 whatever a library raises is the finding
            traceback.print_exc(file=sys.stderr)
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps({"feature": name, "problem": problem}), flush=True)

"""Features that every client is tried with; a program of this folder gives one function a feature.

Runs in the client's own environment: nothing of the project can be imported here.
"""

import json
import os
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

URL, KEY = os.environ.get("PODIUM_BASE_URL", ""), os.environ.get("PODIUM_API_KEY", "")
# The model of a request: Podium's orchestrator, or a language model without one.
MODEL, DIRECT = "podium", "tool/direct"
QUESTION = "What is the capital of France?"
ANSWER = "Paris"
TOOL_QUESTION = "How warm is it at our own station in Oslo?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "name": "get_weather",
    "description": "weather now at our own stations",
    "parameters": CITY,
}
TOOL_ANSWER = "It is -3 degrees."
JSON_QUESTION = "Where is Lyon?"
EMBEDDER, EMBEDDED = "tool/embedder", ["Oslo", "Lyon", "Oslo"]
PLACE = {"city": "Lyon", "country": "France"}
IMAGE_QUESTION = "What is on this picture?"
# A PNG of one pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = f"data:image/png;base64,{PIXEL}"
# What a model that takes images says of it, and what is answered then.
IMAGE_SEEN = "a PNG of 1 x 1 pixels"
IMAGE_ANSWER = "One pixel."
# The model thinks about it for longer than anybody waits.
SLOW_QUESTION = "What is the meaning of life?"
# After so long a client goes away; its request has arrived by then.
IMPATIENCE_S = 5.0
CANCELLED, ANSWERED = "STOP_REASON_CANCELLED", "STOP_REASON_ANSWERED"
END_WITHIN_S = 60.0


class No(Exception):
    """The platform does not do this: it said so, as its documentation does."""


def get_weather(city: str) -> str:
    """Weather now at our own stations."""
    check(city, "Oslo")
    return "-3 degrees"


@contextmanager
def gives_up(kind: type[Exception]) -> Iterator[list[Exception]]:
    found: list[Exception] = []
    try:
        yield found
    except kind as error:
        found.append(error)
    if not found:
        raise AssertionError(f"there was no {kind.__name__}")


def slow_question() -> str:
    """One of a kind, so that its episode can be found."""
    return f"{SLOW_QUESTION} {uuid4()}"


def ends(question: str, stop_reason: str) -> None:
    """Waits for the end of the question's episode. Raises AssertionError where it is another."""
    deadline = time.monotonic() + END_WITHIN_S
    while not (found := episode_of(question)).get("end_time"):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {END_WITHIN_S:g} s: {found.get('state', 'no episode')}")
        time.sleep(0.2)
    check(found["stop_reason"], stop_reason)


def episode_of(question: str) -> dict[str, str]:
    request = urllib.request.Request(
        f"{URL}/episodes?page_size=20", headers={"authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request) as reply:
        listed = json.load(reply)["episodes"]
    return next((each for each in listed if question in each["spec"]["task"]), {})


def check(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def check_pieces(pieces: Iterable[str | None]) -> None:
    """The answer, of a model without an orchestrator as it is written."""
    found = [piece for piece in pieces if piece]
    check("".join(found), ANSWER)
    if MODEL == DIRECT and len(found) == 1:
        raise AssertionError("the whole answer came at once")


def check_vectors(vectors: list[list[float]]) -> None:
    """A vector for each text, and the same for the same."""
    first, second, third = vectors
    check(first, third)
    check(len(first), len(second))
    if first == second:
        raise AssertionError("different texts have the same vector")


def report_direct(stream: Callable[[], None], tools: Callable[[], None]) -> None:
    """Tries both with a model without an orchestrator."""
    global MODEL  # noqa: PLW0603 every program reads it when it asks
    MODEL = DIRECT
    report(tokens=stream, direct_tools=tools)


def report(*attempts: Callable[[], None], **named: Callable[[], None]) -> None:
    """Tries every feature, and prints a line of JSON for each: what went wrong, or why it is not
    done."""
    for name, attempt in {**{each.__name__: each for each in attempts}, **named}.items():
        problem = reason = ""
        try:
            attempt()
        except No as no:
            reason = str(no)
        except Exception as error:  # noqa: BLE001 whatever a library raises is the finding
            traceback.print_exc(file=sys.stderr)
            problem = f"{type(error).__name__}: {error}"
        feature = "JSON" if name == "structured" else name.replace("_", " ")
        print(json.dumps({"feature": feature, "problem": problem, "no": reason}), flush=True)

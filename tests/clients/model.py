"""The model behind the platform: a real HTTP server that decides by what its prompt asks for."""

import json
import re
from collections.abc import Mapping
from typing import Any

from clients.programs.features import ANSWER, PLACE, SLOW_QUESTION, TOOL_ANSWER, TOOL_QUESTION
from openai_server import Reply

MODEL = "scripted-model"
# Longer than a client waits.
SLOWLY_S = 300.0
MUST_CALL = re.compile(r"Call (.+) now\.")


def decide(body: Mapping[str, Any]) -> dict[str, Any]:
    """The call that must be made, the weather where it is asked for, or the answer."""
    asked = body["messages"][-1]["content"]
    if found := MUST_CALL.search(asked):
        names = found[1].split(" or ")
        if "get_weather" in names and TOOL_QUESTION in asked:
            return weather()
        return {"tool": names[-1], "arguments": PLACE}
    if TOOL_QUESTION in asked and "-3 degrees" not in asked:
        return weather()
    if "fits this schema" in asked:
        return {"answer": PLACE}
    return {"answer": TOOL_ANSWER if TOOL_QUESTION in asked else ANSWER}


def weather() -> dict[str, Any]:
    return {"tool": "get_weather", "arguments": {"city": "Oslo"}}


def reply(body: Mapping[str, Any]) -> Reply:
    slow = SLOW_QUESTION in body["messages"][-1]["content"]
    return Reply(json.dumps(decide(body)), delay_s=SLOWLY_S if slow else 0.0)

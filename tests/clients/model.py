import base64
import json
import re
import struct
from collections.abc import Mapping
from typing import Any

from clients.programs.features import (
    ANSWER,
    IMAGE_ANSWER,
    IMAGE_QUESTION,
    IMAGE_SEEN,
    PLACE,
    SLOW_QUESTION,
    TOOL_ANSWER,
    TOOL_QUESTION,
)
from openai_server import Reply

MODEL, DIRECT = "scripted-model", "direct-model"
# The tool whose model takes images.
SEER = "seer"
# Longer than a client waits.
SLOWLY_S = 300.0
# Between two letters.
PACE_S = 0.05
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
    if IMAGE_QUESTION in asked and IMAGE_SEEN not in asked:
        return {"tool": SEER, "arguments": {}}
    if "fits this schema" in asked:
        return {"answer": PLACE}
    if IMAGE_QUESTION in asked:
        return {"answer": IMAGE_ANSWER}
    return {"answer": TOOL_ANSWER if TOOL_QUESTION in asked else ANSWER}


def weather() -> dict[str, Any]:
    return {"tool": "get_weather", "arguments": {"city": "Oslo"}}


def described(parts: list[Mapping[str, Any]]) -> str:
    [url] = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    kind, _, written = url.partition(";base64,")
    # In a PNG the width and height follow its signature and the name of its first chunk.
    width, height = struct.unpack(">II", base64.b64decode(written)[16:24])
    return f"a {kind.removeprefix('data:image/').upper()} of {width} x {height} pixels"


def direct_reply(body: Mapping[str, Any]) -> Reply:
    """A call of the client's function where it has one, or the answer, letter by letter."""
    if body["messages"][-1]["role"] == "tool":
        return Reply(TOOL_ANSWER, pace_s=PACE_S)
    if not body.get("tools"):
        return Reply(ANSWER, pace_s=PACE_S)
    function = {"name": "get_weather", "arguments": json.dumps({"city": "Oslo"})}
    call = {"id": "call_1", "type": "function", "function": function}
    return Reply("", finish_reason="tool_calls", message={"tool_calls": [call]})


def reply(body: Mapping[str, Any]) -> Reply:
    if body["model"] == DIRECT:
        return direct_reply(body)
    content = body["messages"][-1]["content"]
    if isinstance(content, list):
        return Reply(described(content))
    slow = SLOW_QUESTION in content
    return Reply(json.dumps(decide(body)), delay_s=SLOWLY_S if slow else 0.0)

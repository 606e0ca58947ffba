"""An MCP server that misbehaves when its tool is called, as a process: `mcp_program.py FAULT`.

It imports nothing of ours: the adapters start it in an environment of its own.
"""

import json
import os
import sys
from typing import Any

ENVELOPE = {"jsonrpc": "2.0"}
WRONG_RESULT = {"content": "no list"}
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "misbehaving", "version": "1"},
}


def is_call(message: dict[str, Any]) -> bool:
    return message.get("method") == "tools/call"


def greeting(message: dict[str, Any]) -> dict[str, Any] | None:
    if "id" not in message:
        return None
    first = message.get("method") == "initialize"
    return {**ENVELOPE, "id": message["id"], "result": INITIALIZED if first else {"tools": []}}


def wrong_answer(message: dict[str, Any]) -> bytes:
    return json.dumps({**ENVELOPE, "id": message["id"], "result": WRONG_RESULT}).encode()


def misbehave(fault: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if is_call(message):
            _write(_bad_answer(fault, message))
            if fault in {"half", "reset"}:
                os._exit(1)
        elif reply := greeting(message):
            _write(json.dumps(reply).encode() + b"\n")


def _bad_answer(fault: str, message: dict[str, Any]) -> bytes:
    match fault:
        case "not_json":
            return b"<html>I am a teapot\n"
        case "wrong_schema":
            return wrong_answer(message) + b"\n"
        case "binary":
            return os.urandom(1024) + b"\n"
        case "hundred_megabytes":
            return b"x" * (100 << 20)
        case "half":
            return wrong_answer(message)[:20]
    return b""


def _write(answer: bytes) -> None:
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    misbehave(sys.argv[1])

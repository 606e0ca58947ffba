"""An MCP server over standard streams, one of whose tools is malformed."""

import json
import sys
from typing import Any

MAIL = {"type": "string", "pattern": "^(?!x).+@.+$"}
TOOLS: list[Any] = [
    {"name": "send", "inputSchema": {"properties": {"mail": MAIL}, "required": ["mail"]}},
    {"name": "broken", "inputSchema": "object"},
    {"description": "It has no name."},
]
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "odd", "version": "1"},
    },
    # It never ends its list.
    "tools/list": {"tools": TOOLS, "nextCursor": "again"},
    "tools/call": {"content": [{"type": "text", "text": "sent"}, {"type": "video", "uri": "a:b"}]},
}


def main() -> None:
    """Answers what it knows, until its input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = RESULTS.get(message["method"])
        error = {"code": -32601, "message": "no such method"}
        answer = {"error": error} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""A process that calls functions: READY, then a line of JSON for each call and each answer.

Functions are plain Python and may hold the interpreter for as long as they take: here it is this
process's, which is ended when one takes too long. Answers {"answer": ...} or {"failure": [kind,
message]}.
"""

import json
import sys
from typing import Any

from tool_adapters.functions.errors import FunctionFailed
from tool_adapters.functions.table import FUNCTIONS
from tool_adapters.helper_processes import restrict_memory

MEMORY_BYTES_MAX = 1024**3
# The first line, once the functions are imported.
READY = b"ready\n"


def main() -> None:
    # Not behind others, as helpers are: a neighbour's load would delay the shortest call.
    restrict_memory(MEMORY_BYTES_MAX)
    sys.stdout.write(READY.decode())
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(**json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": FUNCTIONS[function](arguments)}
    except FunctionFailed as error:
        return {"failure": [error.failure.kind.value, error.failure.message]}


if __name__ == "__main__":
    main()

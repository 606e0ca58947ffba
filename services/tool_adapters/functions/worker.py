"""A process that calls functions: READY, then a line of JSON for each call and two for each answer.

The first of the two is empty: the function is loaded, and its time begins.

Functions are plain Python and may hold the interpreter for as long as they take: here it is this
process's, which is ended when one takes too long. Answers {"answer": ...} or {"failure": [kind,
message]}.
"""

import json
import sys
from typing import Any

from podium_functions.errors import FunctionFailed
from podium_functions.function import Function
from podium_functions.table import FUNCTIONS
from podium_kit.helper_processes import READY, restrict_memory

MEMORY_BYTES_MAX = 1024**3


def main() -> None:
    # Not behind others, as helpers are: a neighbour's load would delay the shortest call.
    restrict_memory(MEMORY_BYTES_MAX)
    sys.stdout.write(READY.decode())
    sys.stdout.flush()
    for line in sys.stdin:
        request = json.loads(line)
        function = FUNCTIONS[request["function"]]
        function.load()
        _write("")
        _write(json.dumps(_answer(function, request["arguments"])))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _answer(function: Function, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": function(arguments)}
    except FunctionFailed as error:
        return {"failure": [error.failure.kind.value, error.failure.message]}


if __name__ == "__main__":
    main()

"""A service as a process: its event loop, and a plain last line when it cannot start."""

import gc
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from podium_kit.rpc.errors import DomainError

# The garbage that a collection waits for, in objects. Python's 700 are met several times by each
# call, and a tenth of a busy worker's processor time went into looking for cycles.
GARBAGE_OBJECTS = 5_000


def run(service: Coroutine[Any, Any, None]) -> None:
    """Runs it to its end; a domain error becomes its message on stderr and exit status 1.

    What serves calls raises none: the interceptors answer those. So this is about starting, for
    example without a database, where a stack trace would hide the cause.
    """
    # What was imported is never garbage.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    try:
        uvloop.run(service)
    except DomainError as error:
        sys.stderr.write(f"{error.message}\n")
        raise SystemExit(1) from None

"""A service as a process: its event loop, and a plain last line when it cannot start."""

import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from podium_kit.rpc.errors import DomainError


def run(service: Coroutine[Any, Any, None]) -> None:
    """Runs it to its end; a domain error becomes its message on stderr and exit status 1.

    What serves calls raises none: the interceptors answer those. So this is about starting, for
    example without a database, where a stack trace would hide the cause.
    """
    try:
        uvloop.run(service)
    except DomainError as error:
        sys.stderr.write(f"{error.message}\n")
        raise SystemExit(1) from None

"""The end of the command: a status for every outcome, and never a stack trace."""

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from typer import Abort
from typer._click.exceptions import ClickException

from podium_cli.app import app
from podium_kit.client.errors import UsageError, UserError

FAILED, INTERRUPTED = 1, 130
# What a shell reports of a program that a closed pipe ended.
NOBODY_READS = 141
OUTPUT_ERRORS = {errno.ENOSPC, errno.EPIPE}


class Fault(UserError):
    """An unexpected error; its stack trace is in a file."""

    def __init__(self, error: BaseException) -> None:
        handle, path = tempfile.mkstemp(prefix="podium-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write("".join(traceback.format_exception(error)))
        message = str(error).strip()
        cause = f"{type(error).__name__}: {message}" if message else type(error).__name__
        super().__init__(cause, f"this is a fault of podium; report it with {path}")


def status_of(arguments: Sequence[str]) -> int:
    # A stream that was closed before we began is none.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  to the end
    try:
        status = _run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return NOBODY_READS
    except OSError as error:
        # A full disk behind stdout, for one; stderr may be as bad.
        with suppress(OSError):
            _say(UserError(f"the output cannot be written: {error.strerror}"), arguments)
        return FAILED
    return status


def _run(arguments: Sequence[str]) -> int:
    try:
        return app(arguments, prog_name="podium", standalone_mode=False) or 0
    except ClickException as error:
        return _wrong_usage(error, arguments)
    except SystemExit as ended:
        # How Rich and Click end when a pipe is closed.
        is_closed = isinstance(ended.__context__, BrokenPipeError)
        return NOBODY_READS if is_closed else int(ended.code or 0)
    except (KeyboardInterrupt, Abort):
        return INTERRUPTED
    except Exception as error:  # BLE001: whatever it is, a person reads two lines
        if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS:
            raise
        return _say(Fault(error), arguments)


def _wrong_usage(error: ClickException, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        _say(UsageError(error.format_message().strip()), arguments)
    else:
        # Slow to import, and needed for mistakes alone.
        from typer.rich_utils import rich_format_error  # noqa: PLC0415

        rich_format_error(error)
    return error.exit_code


def _say(error: UserError, arguments: Sequence[str]) -> int:
    from podium_cli.output import Output  # noqa: PLC0415  slow to import

    Output("--json" in arguments).error(error)
    return error.exit_status

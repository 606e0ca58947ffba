"""What can go wrong for a person at the terminal: the cause, and what mends it."""

from embedded import EmbeddedError, StartupFailed


class CliError(Exception):
    """An error told without a stack trace; ends the command with status 1."""

    exit_status = 1

    def __init__(self, cause: str, mend: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.mend = mend


class UsageError(CliError):
    """The command line or an input file is wrong; ends the command with status 2."""

    exit_status = 2


def embedded_error(error: EmbeddedError) -> CliError:
    """An embedded server's error; its message names the mend after a colon."""
    cause, _, mend = str(error).partition(": ")
    if isinstance(error, StartupFailed):
        return CliError(str(error), "mend what the log names, then run `podium up` again")
    return CliError(cause, mend)

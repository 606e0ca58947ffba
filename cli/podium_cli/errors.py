"""What can go wrong for a person at the terminal: the cause, and what mends it."""


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

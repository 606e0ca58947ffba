"""What can go wrong for a person at the terminal: the cause, and what fixes it."""


class CliError(Exception):
    """An error told without a stack trace; ends the command with status 1."""

    exit_status = 1

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


class UsageError(CliError):
    """The command line or an input file is wrong; ends the command with status 2."""

    exit_status = 2

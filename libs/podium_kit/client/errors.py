from pathlib import Path


class UserError(Exception):
    """An error printed without a stack trace; ends the command with status 1."""

    exit_status = 1

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


class UsageError(UserError):
    """The command line or an input file is wrong; ends the command with status 2."""

    exit_status = 2


class UnreadableFile(UsageError):
    def __init__(self, path: Path, error: OSError | UnicodeDecodeError, fix: str) -> None:
        if isinstance(error, UnicodeDecodeError):
            super().__init__(f"{path} is not UTF-8", "save it as text in UTF-8")
        else:
            super().__init__(f"{path} cannot be read: {error.strerror}", fix)

from collections.abc import Iterable

from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied


class SecretNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no secret {name}", param="name")


class WeakSecret(InvalidArgument):
    """A value that answers hold for other reasons, where it could not be blanked."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"value: {problem}; let its server make a longer one, as `openssl rand -base64 24`"
            " does: a secret is blanked wherever an answer repeats it, so that it must be no text"
            " that answers hold anyway",
            param="value",
        )


class TooManySecrets(FailedPrecondition):
    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} secrets already; delete one that no tool names")


class NoMasterKey(FailedPrecondition):
    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotTheirOwn(PermissionDenied):
    """Another person had the text of the key that a user's secret is asked for with."""

    def __init__(self, subject: str, others: Iterable[str]) -> None:
        super().__init__(
            f"{', '.join(sorted(others))} had the text of this key of {subject}, so it has no"
            " access to secrets of theirs; sign in by the identity provider, or have the operator"
            " create a key"
        )

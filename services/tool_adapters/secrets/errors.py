"""What can be wrong with secrets."""

from podium_kit.rpc.errors import FailedPrecondition, NotFound


class SecretNotFound(NotFound):
    """No such secret, for this tenant or user."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no secret {name}", param="name")


class TooManySecrets(FailedPrecondition):
    """An owner has as many as it may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} secrets already; delete one that no tool names")


class NoMasterKey(FailedPrecondition):
    """Nothing to encrypt with."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

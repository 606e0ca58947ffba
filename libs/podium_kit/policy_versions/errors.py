"""What can be wrong with a policy version."""

from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument


class InvalidVersionName(InvalidArgument):
    """Not the name of a policy version."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is no policy version; names are policy-<run>-v<number>, with a run of"
            " lower-case letters, digits and hyphens",
            name=name,
        )


class ArtifactRejected(FailedPrecondition):
    """The folder of a version is not what its trainer wrote, or may not be served."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"policy version {name} is rejected: {why}", name=name)
        self.why = why


class Unreadable(ArtifactRejected):
    """A file of a version cannot be read, which may pass."""


class NotReady(FailedPrecondition):
    """A version that the serving side has not admitted, or that no gate has let through."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"policy version {name} cannot be promoted: {why}", name=name)


class NoEarlierVersion(FailedPrecondition):
    """There is nothing to go back to."""

    def __init__(self) -> None:
        super().__init__("no version was promoted before this one; nothing to go back to")

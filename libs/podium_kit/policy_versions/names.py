"""Names of policy versions, and errors about them.

A name is never used twice, because vLLM keys its prefix cache by adapter name: an adapter loaded
again under its name was answered with blocks of the one before (vllm-project/vllm#42125).
"""

import re
from dataclasses import dataclass

from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument

PREFIX = "policy-"
# Of at most 46 characters, names of 63: a name is a label of Kubernetes, too.
RUN = r"[a-z0-9](?:[a-z0-9-]{0,44}[a-z0-9])?"
_NAME = re.compile(rf"policy-(?P<run>{RUN})-v(?P<number>0|[1-9]\d{{0,7}})")


@dataclass(frozen=True, order=True)
class VersionName:
    """`policy-<run>-v<number>`; versions of a run are ordered by their number."""

    run: str
    number: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(str(self)):
            raise InvalidVersionName(str(self))

    def __str__(self) -> str:
        return f"{PREFIX}{self.run}-v{self.number}"

    @property
    def sort_key(self) -> str:
        """Text in the order of the names: version 10 comes after version 9."""
        return f"{self.run} {self.number:08d}"

    @classmethod
    def parse(cls, text: str) -> "VersionName":
        found = _NAME.fullmatch(text)
        if found is None:
            raise InvalidVersionName(text)
        return cls(found["run"], int(found["number"]))


class InvalidVersionName(InvalidArgument):
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
    def __init__(self) -> None:
        super().__init__("no version was promoted before this one; nothing to go back to")

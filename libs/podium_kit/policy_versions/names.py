"""Names of policy versions: never used twice, so that no cache can hold an older one's blocks.

vLLM keys its prefix cache by adapter name: an adapter loaded again under its name was
answered with blocks of the one before (vllm-project/vllm#42125).
"""

import re
from dataclasses import dataclass

from podium_kit.policy_versions.errors import InvalidVersionName

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
        """Raises InvalidVersionName."""
        found = _NAME.fullmatch(text)
        if found is None:
            raise InvalidVersionName(text)
        return cls(found["run"], int(found["number"]))

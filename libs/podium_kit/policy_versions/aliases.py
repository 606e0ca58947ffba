"""The versions behind `candidate` and `promoted`, and those that a policy's episodes get: a file
each, replaced in one step.

Replacing it is the commit: before, every call goes to the old version, after, to the new one.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from podium_kit.policy_versions.names import ArtifactRejected, NoEarlierVersion, VersionName
from podium_kit.policy_versions.writing import replace_text

FOLDER = "aliases"
HISTORY_MAX = 50


class Alias(StrEnum):
    CANDIDATE = "candidate"
    """The version that training rollouts use: the newest that every check let through."""
    PROMOTED = "promoted"
    """The version that users get: the newest that passed the gate."""


class Aliases:
    """Aliases and pins of a store. A pin names versions that engines serve however old they are."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    @property
    def meant(self) -> frozenset[str]:
        """Versions that an alias means or meant before, and those that are pinned."""
        files = sorted(self._folder.glob("*.json"))
        return frozenset(name for file in files for name in self.history(file.stem)[-2:])

    def pin(self, tenant: str, policy: str, names: Sequence[str]) -> None:
        """Pins the versions of a policy, two at most, in place of those before."""
        key = hashlib.sha256(f"{tenant}/{policy}".encode()).hexdigest()[:16]
        with self._locked():
            self._write(f"pinned-{key}", [str(VersionName.parse(name)) for name in names[-2:]])

    def current(self, alias: Alias) -> str:
        history = self.history(alias)
        return history[-1] if history else ""

    def history(self, alias: str) -> list[str]:
        """Versions to roll back to, oldest first, and the current one. Raises ArtifactRejected."""
        try:
            found = json.loads(self._path(alias).read_text(encoding="utf-8"))
            return [str(VersionName.parse(name)) for name in found["history"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactRejected(
                alias,
                f"the alias's file {self._path(alias)} is damaged; restore it, or make its content"
                ' {"history": ["<version>"]} with the version it means',
            ) from error

    def move(self, alias: Alias, name: str) -> None:
        with self._locked():
            history = self.history(alias)
            if not history or history[-1] != name:
                self._write(alias, [*history, str(VersionName.parse(name))][-HISTORY_MAX:])

    def back(self, alias: Alias, name: str) -> str:
        """Points the alias from a version at the one before; that one. Raises NoEarlierVersion."""
        with self._locked():
            found = self.history(alias)
            history = found[:-1]
            # Another one's move since the caller looked is not undone.
            if not history or found[-1] != name:
                raise NoEarlierVersion
            self._write(alias, history)
            return history[-1]

    def _write(self, alias: str, history: list[str]) -> None:
        replace_text(self._path(alias), json.dumps({"history": history}))

    def _path(self, alias: str) -> Path:
        return self._folder / f"{alias}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, also of other processes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

"""The folder of all versions, on a volume that trainer and engines share.

A version is written under a temporary name, its manifest last, and renamed into place:
what bears a version's name is whole. What was altered afterwards is found by digest.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from podium_kit.policy_versions.aliases import Aliases
from podium_kit.policy_versions.manifest import CONFIG, MANIFEST, WEIGHTS, Manifest
from podium_kit.policy_versions.names import (
    ArtifactRejected,
    InvalidVersionName,
    Unreadable,
    VersionName,
)
from podium_kit.policy_versions.reports import read_report

PARTIAL = ".partial-"
TAKEN = "retired"


class VersionStore:
    """Versions by name. Aliases, decisions, reports and metrics lie beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Path of a version. Raises InvalidVersionName, so never outside of the store."""
        return self.root / str(VersionName.parse(name))

    def names(self) -> list[VersionName]:
        return sorted(name for name in map(_named, self._entries()) if name is not None)

    def is_retired(self, name: str) -> bool:
        """Returns whether a version was removed and its name stays taken."""
        return (self.root / TAKEN / name).exists()

    def is_taken(self, name: str) -> bool:
        return self.path(name).exists() or self.is_retired(name)

    def write(self, manifest: Manifest, fill: Callable[[Path], None]) -> Manifest:
        """Adds a version of the files that `fill` writes into the folder it is given.

        The manifest's own digests are replaced. Raises ArtifactRejected for a name that is or
        was taken; an interrupted write leaves nothing that counts.
        """
        final = self.path(manifest.name)
        self.root.mkdir(parents=True, exist_ok=True)
        prefix = f"{PARTIAL}{manifest.name}-"
        self._clear(prefix)
        partial = Path(tempfile.mkdtemp(prefix=prefix, dir=self.root))
        try:
            fill(partial)
            complete = manifest.model_copy(update={"files": _digests(partial)})
            _require_format(complete)
            (partial / MANIFEST).write_text(complete.model_dump_json(indent=1), encoding="utf-8")
            _durable_digest(partial / MANIFEST)
            _sync(partial)
            # Engines run as another user than the trainer.
            partial.chmod(0o755)
            self._move(partial, final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return complete

    def manifest(self, name: str) -> Manifest:
        """Reads the manifest of a version, not its files. Raises ArtifactRejected."""
        path = self.path(name) / MANIFEST
        try:
            found = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ArtifactRejected(name, "its manifest cannot be read: half written?") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise ArtifactRejected(
                name, f"its manifest is damaged: {where}: {first['msg']}"
            ) from error
        if found.name != name:
            raise ArtifactRejected(name, f"its manifest is that of {found.name}")
        return found

    def verified(self, name: str) -> Manifest:
        """A version whose every file is what was written. Raises ArtifactRejected, Unreadable."""
        manifest = self.manifest(name)
        _require_format(manifest)
        try:
            self._verify_files(name, manifest)
        except OSError as error:
            why = f"{error.filename} cannot be read: {error.strerror}"
            raise Unreadable(name, f"{why}; let this process's user read it") from error
        return manifest

    def _verify_files(self, name: str, manifest: Manifest) -> None:
        folder = self.path(name)
        there = {entry.name for entry in folder.iterdir()} - {MANIFEST}
        if odd := sorted(there ^ manifest.files.keys()):
            word = "is missing" if odd[0] in manifest.files else "does not belong to it"
            raise ArtifactRejected(name, f"{odd[0]} {word}")
        for file, digest in manifest.files.items():
            if (folder / file).is_symlink() or _digest(folder / file) != digest:
                raise ArtifactRejected(name, f"{file} is not what was written")

    def written_ns(self, name: str) -> int:
        """Returns the time of the manifest in nanoseconds since 1970; 0 without one."""
        try:
            return (self.path(name) / MANIFEST).stat().st_mtime_ns
        except OSError:
            return 0

    def remove(self, name: str) -> None:
        """Deletes a version's files. Its name stays taken: no later version may bear it."""
        retired = self.root / TAKEN
        retired.mkdir(exist_ok=True)
        (retired / name).touch()
        shutil.rmtree(self.path(name))

    def _clear(self, prefix: str) -> None:
        """Deletes what killed writers left: a run that is killed while it publishes tries again,
        and each time leaves whole weights.
        """
        for left in self._entries():
            # Another run's name may begin with this one; it continues with a hyphen.
            if left.name.startswith(prefix) and "-" not in left.name.removeprefix(prefix):
                shutil.rmtree(left, ignore_errors=True)

    def _move(self, partial: Path, final: Path) -> None:
        if self.is_retired(final.name):
            raise ArtifactRejected(final.name, "the name was used before; take the next number")
        try:
            # Not over a folder that has files: of two writers one wins.
            partial.rename(final)
        except OSError as error:
            raise ArtifactRejected(final.name, "the name is taken; take the next number") from error
        _sync(self.root)

    def _entries(self) -> list[Path]:
        return list(self.root.iterdir()) if self.root.is_dir() else []


def _named(entry: Path) -> VersionName | None:
    try:
        return VersionName.parse(entry.name)
    except InvalidVersionName:
        return None


def _require_format(manifest: Manifest) -> None:
    needed = (WEIGHTS[manifest.format], CONFIG[manifest.format])
    if missing := [name for name in needed if name not in manifest.files]:
        raise ArtifactRejected(manifest.name, f"{manifest.format} versions hold {missing[0]}")


def _digests(folder: Path) -> dict[str, str]:
    return {entry.name: _durable_digest(entry) for entry in sorted(folder.iterdir())}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _durable_digest(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return _digest(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


RETIRED = "retired"


def removable(store: VersionStore) -> list[str]:
    """Versions whose files may be deleted: no alias or pin means them, no engine has them.

    An engine that is asked for an adapter whose folder is gone ends (seen with vLLM 0.32), so the
    serving side unloads a version first and says so in its report.
    """
    meant = Aliases(store.root).meant
    return [
        name
        for name in map(str, store.names())
        if name not in meant and _is_unloaded_everywhere(store, name)
    ]


def _is_unloaded_everywhere(store: VersionStore, name: str) -> bool:
    report = read_report(store.root, name)
    return report is not None and report.faults == (RETIRED,) and report.replicas == 0

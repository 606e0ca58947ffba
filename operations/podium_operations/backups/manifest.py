"""A backup is a folder; what is in it, written last of all its files."""

import hashlib
import json
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from podium_kit.client.errors import UserError

MANIFEST = "manifest.json"
FORMAT = 1
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BackupUnusable(UserError):
    """A folder that cannot be restored; nothing was changed."""

    def __init__(self, folder: Path, problem: str, fix: str = "restore another backup") -> None:
        super().__init__(f"{folder} cannot be restored: {problem}", fix)


class Part(BaseModel):
    """An unknown field is a format that this version does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BackupFile(Part):
    sha256: Sha256
    size_bytes: int = Field(ge=0)


class DatabaseFacts(Part):
    revision: str
    """Revision of the schema, as the service's migrations number it."""
    server_version: str
    extensions: list[str]
    roles: list[str]
    """Roles besides the owner that may use it."""


class LedgerEnd(Part):
    tenants: int
    entries: int
    heads_sha256: Sha256
    """Digest of every tenant's last sequence and hash, which cover all entries before."""


class Manifest(Part):
    format: Literal[1]
    podium_version: str
    point_time: datetime
    """The moment that every database was in."""
    databases: dict[str, DatabaseFacts]
    ledger: LedgerEnd
    master_keys: dict[str, Sha256] = {}
    """Fingerprints, by id, of the keys that stored secrets are encrypted with; empty where the
    backup is not of a local installation, whose keys are elsewhere."""
    files: dict[str, BackupFile]
    """Every file of the folder but this one, by its path in it."""

    @field_validator("files")
    @classmethod
    def _stays_inside(cls, value: dict[str, BackupFile]) -> dict[str, BackupFile]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{name!r} is no path inside a backup")
        return value


def dump_path(database: str) -> str:
    return f"databases/{database}.dump"


def describe(path: Path) -> BackupFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupFile(sha256=digest, size_bytes=path.stat().st_size)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Raises BackupUnusable, also when a file is missing, changed or unknown."""
    try:
        values = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError as error:
        problem = f"it has no {MANIFEST}"
        raise BackupUnusable(
            folder, problem, "name the folder that `podium backup` made"
        ) from error
    except (OSError, ValueError) as error:
        raise BackupUnusable(folder, f"{MANIFEST} cannot be read: {error}") from error
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        problem = f"its format is {found}, this version of podium reads {FORMAT}"
        raise BackupUnusable(folder, problem, "use the version of podium that made it")
    try:
        manifest = Manifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BackupUnusable(folder, f"{where} of {MANIFEST}: {first['msg']}") from error
    _require_unchanged(folder, manifest)
    return manifest


def _require_unchanged(folder: Path, manifest: Manifest) -> None:
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise BackupUnusable(folder, f"{name} is missing")
        if describe(path) != expected:
            raise BackupUnusable(folder, f"{name} is not the file that was backed up (SHA-256)")
    for database in manifest.databases:
        if dump_path(database) not in manifest.files:
            raise BackupUnusable(folder, f"{dump_path(database)} is missing")

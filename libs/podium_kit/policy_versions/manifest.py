"""The manifest of a version, which is written last of all its files."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from podium_kit.policy_versions.canary import Canary
from podium_kit.policy_versions.names import VersionName

MANIFEST = "manifest.json"
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Format(StrEnum):
    MERGED = "merged"
    """A whole model: what a CPU serves, where an adapter doubles the time of a token."""
    ADAPTER = "adapter"
    """A LoRA adapter in PEFT's layout: what a GPU serves beside its base."""


WEIGHTS = {Format.MERGED: "model.safetensors", Format.ADAPTER: "adapter_model.safetensors"}
CONFIG = {Format.MERGED: "config.json", Format.ADAPTER: "adapter_config.json"}


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    format: Format
    files: dict[str, Sha256]
    """SHA-256 by file name; every file of the folder but this one."""
    base_digest: Sha256
    """Digest of the weights the run started from."""
    parent: str
    """The version trained on; "" for the first of a run."""
    step: int = Field(ge=0)
    """Optimizer steps of the run."""
    offsets: dict[int, int]
    """The offset of the first trajectory that was not trained on, by partition."""
    canary: Canary
    tenant: str = ""
    """The tenant whose episodes it learnt from, which alone may use it; "": every tenant may."""

    @field_validator("name", "parent")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        return str(VersionName.parse(value)) if value else value

    @field_validator("files")
    @classmethod
    def _stays_inside(cls, value: dict[str, str]) -> dict[str, str]:
        if odd := [name for name in value if not _FILE_NAME.fullmatch(name) or name == MANIFEST]:
            raise ValueError(f"{odd[0]!r} is no name of a file in a version")
        return value

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Owner:
    """A user, or the whole tenant for subject ""."""

    tenant: str
    subject: str = ""


@dataclass(frozen=True)
class NewSecret:
    """A user's value goes to its hosts alone: others register the tools."""

    owner: Owner
    name: str
    value: str
    hosts: tuple[str, ...]
    updated_by: str


@dataclass(frozen=True)
class SecretInfo:
    name: str
    version: int
    hosts: tuple[str, ...]
    update_time: datetime
    updated_by: str


@dataclass(frozen=True)
class Sealed:
    """An encrypted value, and its own key, which the master key of that id encrypted."""

    key_id: str
    wrapped_key: bytes
    nonce: bytes
    ciphertext: bytes

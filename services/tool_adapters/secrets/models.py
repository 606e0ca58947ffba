"""Secrets apart from how they travel and are stored."""

import re
from dataclasses import dataclass
from datetime import datetime

from tool_adapters.secrets.errors import InvalidSecret

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:_[A-Za-z0-9.-]+)*")
NAME_CHARACTERS_MAX = 64
VALUE_BYTES_MAX = 16 * 1024
HOSTS_MAX = 20
HOST = re.compile(r"[a-z0-9.:-]{1,253}")


@dataclass(frozen=True)
class Owner:
    """Whose secret it is: a user's, or that of the whole tenant for subject ""."""

    tenant: str
    subject: str = ""


@dataclass(frozen=True)
class NewSecret:
    """A value to store. A user's goes to its hosts alone: others register the tools."""

    owner: Owner
    name: str
    value: str
    hosts: tuple[str, ...]
    updated_by: str

    def check(self) -> None:
        """Raises InvalidSecret, which names the field."""
        if not NAME.fullmatch(self.name) or len(self.name) > NAME_CHARACTERS_MAX:
            raise InvalidSecret(
                f"name must have at most {NAME_CHARACTERS_MAX} of A-Z a-z 0-9 . - and single _, "
                "and begin with a letter or digit",
                param="name",
            )
        if not 1 <= len(self.value.encode()) <= VALUE_BYTES_MAX:
            raise InvalidSecret(f"value must have 1 to {VALUE_BYTES_MAX} bytes", param="value")
        if self.owner.subject and not 1 <= len(self.hosts) <= HOSTS_MAX:
            raise InvalidSecret(
                f"hosts must name 1 to {HOSTS_MAX} hosts that the value may be sent to",
                param="hosts",
            )
        for host in self.hosts:
            if not HOST.fullmatch(host):
                raise InvalidSecret(
                    f"hosts has {host[:100]!r}; write a host in lower case, without port or path",
                    param="hosts",
                )


@dataclass(frozen=True)
class SecretInfo:
    """What may be shown of one."""

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

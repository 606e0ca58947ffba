"""Secrets that tools name: from the environment or from mounted files, never from a request.

The platform's secrets are for shared tools. A tenant's tools see the tenant's own, so that
no tenant can send another's credentials to a server of their choice.
"""

import os
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Protocol

from cachetools import LRUCache

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.config import SECRET_PREFIX

PLATFORM = ""
REDACTED = "[secret]"
# Shorter values would also be found in words that are no secret.
REDACTED_LENGTH_MIN = 6
CONCEALED_MAX = 1000
_TO_VARIABLE = str.maketrans("-.", "__")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:_[A-Za-z0-9.-]+)*")


class SecretStore(Protocol):
    """Where secrets come from."""

    def value(self, owner: str, name: str) -> str:
        """The value of an owner's secret. Raises CallFailed, which names it."""

    def conceal(self, value: str) -> None:
        """Has a value redacted that was made from secrets, or got for them."""

    def redact(self, text: str) -> str:
        """The text without any value given out or concealed so far."""


class MountedSecrets:
    """Environment variables TOOL_ADAPTERS_SECRET_<NAME> or files <folder>/<name>.

    Those of a tenant are TOOL_ADAPTERS_SECRET_<TENANT>__<NAME> and <folder>/<tenant>/<name>.
    Files are read at every call, because Kubernetes changes them when a secret is rotated.
    """

    def __init__(self, folder: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._environment = environment
        self._given_out: set[str] = set()
        # Tokens come and go; the oldest have expired.
        self._concealed: LRUCache[str, None] = LRUCache(CONCEALED_MAX)

    def value(self, owner: str, name: str) -> str:
        """The value; a variable comes before a file. Raises CallFailed."""
        if not _NAME.fullmatch(name) or (owner and not _NAME.fullmatch(owner)):
            raise _missing(f"{name!r} cannot be the name of a secret")
        variable = SECRET_PREFIX + "__".join(filter(None, (owner, name))).upper().translate(
            _TO_VARIABLE
        )
        value = self._environment.get(variable) or self._from_file(owner, name)
        if not value:
            where = f"set {variable}" + (f" or mount the file {name}" if self._folder else "")
            raise _missing(f"the secret {name} is not in the adapters' secret store; {where}")
        self._given_out.add(value)
        return value

    def conceal(self, value: str) -> None:
        """Has one of the last CONCEALED_MAX such values redacted."""
        self._concealed[value] = None

    def redact(self, text: str) -> str:
        """Replaces every value given out or concealed so far."""
        known = chain(self._given_out, self._concealed)
        found = [value for value in known if len(value) >= REDACTED_LENGTH_MIN and value in text]
        # One may be a part of another, whose rest would stay.
        for value in sorted(found, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        return text

    def _from_file(self, owner: str, name: str) -> str:
        if self._folder is None:
            return ""
        path = self._folder / owner / name
        return path.read_text().strip() if path.is_file() else ""


def _missing(message: str) -> CallFailed:
    return CallFailed(FailureKind.PERMISSION_DENIED, message)

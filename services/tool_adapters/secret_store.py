"""Secrets that tools name, never in a request: stored by tenants and users, or mounted.

The platform's secrets are for shared tools. A tenant's tools see the tenant's own, so that
no tenant can send another's credentials to a server of their choice. A user's secret, named as
secret://user/NAME, is used for calls of that user alone, and goes to the hosts that the user named.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from podium_kit.failures import FailureKind
from podium_kit.rpc.identity import current_identity
from tool_adapters.adapter import CallFailed
from tool_adapters.config import SECRET_PREFIX
from tool_adapters.secrets.errors import NoMasterKey, NotTheirOwn
from tool_adapters.secrets.models import Owner, SecretInfo
from tool_adapters.secrets.service import Secrets
from tool_adapters.used_secrets import used_secrets

PLATFORM = ""
_TO_VARIABLE = str.maketrans("-.", "__")
SCHEME, USERS = "secret://", "user/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:_[A-Za-z0-9.-]+)*")
# In a variable `Team-A`, `team.a` and `team_a` would be one tenant, and `--` would end a tenant.
_TENANT_OF_VARIABLE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_OF_VARIABLE = re.compile(r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*")
NO_VARIABLE = (
    "no variable is read for it, because another secret would have the same: there a tenant has "
    "lower-case letters, digits and single dashes, and a name no two of - . _ in a row"
)


class SecretStore(Protocol):
    async def value(self, owner: str, name: str, host: str = "") -> str:
        """The value of an owner's secret, to be sent to the host. Raises CallFailed, which names
        the secret. Who makes the call repeats no value that it used (see used_secrets)."""


def holder(owner: str, name: str) -> str:
    """The holder of the secret: tokens made of a user's secret are kept for that user alone.

    Also in a shared tool that user is one of a tenant, of whom another may have the same name.
    """
    if not is_users(name):
        return owner
    identity = current_identity()
    return f"{identity.tenant}/{identity.subject}"


def is_users(name: str) -> bool:
    return name.removeprefix(SCHEME).startswith(USERS)


def for_header(name: str, value: str) -> str:
    """A secret's value, to be sent in a header. Raises CallFailed for more than one line.

    Libraries reject such a header as well, and repeat it in another spelling than is redacted.
    """
    if not value.isprintable():
        raise _unusable(
            f"the secret {name} goes into a header and holds a line break or another character "
            "that cannot be printed; store it as one line"
        )
    return value


class KnownSecrets:
    def __init__(self, mounted: "MountedSecrets", stored: Secrets) -> None:
        self._mounted = mounted
        self._stored = stored

    async def value(self, owner: str, name: str, host: str = "") -> str:
        bare = name.removeprefix(SCHEME)
        if is_users(name):
            return await self._users(bare.removeprefix(USERS), host)
        if owner != PLATFORM and (found := await self._found(Owner(owner), bare)) is not None:
            return found[1]
        return await self._mounted.value(owner, bare)

    async def _users(self, name: str, host: str) -> str:
        identity = current_identity()
        if others := identity.people - {identity.subject}:
            raise _unusable(NotTheirOwn(identity.subject, others).message)
        found = await self._found(Owner(identity.tenant, identity.subject), name)
        if found is None:
            raise _unusable(
                f"{identity.subject} has no secret {name[:100]}; store it with"
                f" PUT /v1/user-secrets/{name[:100]}"
            )
        info, value = found
        if host.lower() not in info.hosts:
            where = ", ".join(info.hosts)
            raise _unusable(f"the secret {name} of {identity.subject} may be sent to {where} alone")
        return value

    async def _found(self, owner: Owner, name: str) -> tuple[SecretInfo, str] | None:
        try:
            found = await self._stored.value(owner, name)
        except NoMasterKey as error:
            raise _unusable(error.message) from error
        if found is None:
            return None
        # As of a file: what ends its line is no part of a secret.
        info, value = found[0], found[1].strip()
        used_secrets().add(value)
        return info, value


class MountedSecrets:
    """Environment variables TOOL_ADAPTERS_SECRET_<NAME> or files <folder>/<name>.

    Those of a tenant are TOOL_ADAPTERS_SECRET_<TENANT>__<NAME> and <folder>/<tenant>/<name>.
    Files are read at every call, because Kubernetes changes them when a secret is rotated.
    """

    def __init__(self, folder: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._environment = environment

    async def value(self, owner: str, name: str, host: str = "") -> str:
        if not _NAME.fullmatch(name) or (owner and not _NAME.fullmatch(owner)):
            raise _unusable(f"{name!r} cannot be the name of a secret")
        variable = _variable(owner, name)
        value = self._environment.get(variable, "").strip() or self._from_file(owner, name)
        if not value:
            ways = (
                [f"store it: `podium secrets set {name}` or PUT /v1/secrets/{name}"]
                if owner
                else []
            )
            ways += [f"set {variable}"] if variable else []
            ways += [f"mount the file {name}"] if self._folder else []
            how = ", or ".join(ways) + ("" if variable else f"; {NO_VARIABLE}")
            raise _unusable(f"the secret {name} is not in the adapters' secret store; {how}")
        used_secrets().add(value)
        return value

    def _from_file(self, owner: str, name: str) -> str:
        if self._folder is None:
            return ""
        path = self._folder / owner / name
        return path.read_text().strip() if path.is_file() else ""


def _variable(owner: str, name: str) -> str:
    """The variable of this secret alone; "" when it would be another's as well."""
    tenant_fits = not owner or _TENANT_OF_VARIABLE.fullmatch(owner)
    if not (tenant_fits and _NAME_OF_VARIABLE.fullmatch(name)):
        return ""
    parts = "__".join(filter(None, (owner, name)))
    return SECRET_PREFIX + parts.upper().translate(_TO_VARIABLE)


def _unusable(message: str) -> CallFailed:
    return CallFailed(FailureKind.PERMISSION_DENIED, message, unsent=True)

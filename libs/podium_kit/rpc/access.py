"""Access to RPCs as their contracts state it; an RPC that states nothing has no callers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from google.protobuf import descriptor_pool

from podium.common.v1 import access_pb2
from podium_kit.rpc.errors import PermissionDenied
from podium_kit.rpc.identity import Scope, require_scope
from podium_kit.telemetry.handlers import Context

# Stated by RPCs that are open to every authenticated caller of a tenant.
ANY = "any"


class AccessUnstated(PermissionDenied):
    """A fault of the contract; it must not open a door."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"the contract of {method} does not say who may call it; "
            "give the rpc the option (podium.common.v1.scope)"
        )


@dataclass(frozen=True)
class Access:
    # Any one of these is enough; empty when every caller of a tenant may.
    scopes: frozenset[Scope]
    administrative: bool


@cache
def access_of(method: str) -> Access:
    """The access of, for example, "podium.ledger.v1.BudgetService/GetBudget".

    Raises AccessUnstated; also ValueError for a scope that does not exist.
    """
    service, _, name = method.partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    options = found.GetOptions()
    stated = frozenset(options.Extensions[access_pb2.scope])
    if not stated:
        raise AccessUnstated(method)
    scopes = frozenset(Scope(scope) for scope in stated - {ANY})
    return Access(scopes, options.Extensions[access_pb2.administrative])


def require_access(method: str) -> None:
    if scopes := access_of(method).scopes:
        require_scope(*scopes)


# gRPC's names of what a certificate says about its holder: SPIFFE id and DNS names.
NAMES = "x509_subject_alternative_name"


class ClientNotAllowed(PermissionDenied):
    """The certificate is valid; its holder is not among the callers of this service."""

    def __init__(self, names: frozenset[str]) -> None:
        held = ", ".join(sorted(names)) or "no name"
        super().__init__(
            f"the client's certificate is of {held}, which may not call this service; "
            "name it in allowed_clients (on a cluster: components.<caller>.calls of the chart)"
        )


def require_allowed(context: Context, allowed: frozenset[str]) -> None:
    names = certified_names(context.auth_context())
    if names.isdisjoint(allowed):
        raise ClientNotAllowed(names)


def certified_names(properties: Mapping[str, object]) -> frozenset[str]:
    values = properties.get(NAMES, ())
    return frozenset(value.decode() for value in values)  # type: ignore[attr-defined]

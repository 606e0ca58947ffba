"""Who may call an RPC: what its contract states; no caller when it states nothing."""

from dataclasses import dataclass
from functools import cache

from google.protobuf import descriptor_pool

from podium.common.v1 import access_pb2
from podium_kit.rpc.errors import PermissionDenied
from podium_kit.rpc.identity import Scope, require_scope

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
    """What the contract says about who may call an RPC."""

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
    """Lets the current caller pass, or raises ScopeMissing or AccessUnstated."""
    if scopes := access_of(method).scopes:
        require_scope(*scopes)

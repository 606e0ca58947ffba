"""Whose ledger a caller may name, beyond the scope that the contract states."""

from podium_kit.rpc.identity import Scope, current_identity, require_scope


def tenant_named(tenant: str) -> str:
    """The tenant that a request is about: the caller's, or any other for the platform's admin."""
    own = current_identity().tenant
    if tenant and tenant != own:
        require_scope(Scope.PLATFORM_ADMIN)
    return tenant or own

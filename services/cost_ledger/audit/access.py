"""Whose books a caller may read, beyond the scope that the contract states."""

from podium_kit.rpc.identity import Scope, current_identity, require_scope


def audited_tenant(tenant: str) -> str:
    """The tenant whose ledger is read: the caller's, or any other for the platform's admin."""
    own = current_identity().tenant
    if tenant and tenant != own:
        require_scope(Scope.PLATFORM_ADMIN)
    return tenant or own

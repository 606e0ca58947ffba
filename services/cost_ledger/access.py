"""Who may do what with money; the tenant is the caller's and nobody else's."""

from cost_ledger.budgets import BudgetScope
from cost_ledger.errors import ScopeMissing
from rpckit.identity import Identity, Scope, current_identity


def require_any(*scopes: Scope) -> Identity:
    """The caller, when it has one of the scopes. Raises ScopeMissing."""
    identity = current_identity()
    if not any(identity.may(scope) for scope in scopes):
        raise ScopeMissing(identity.subject, [scope.value for scope in scopes])
    return identity


def require_budget_write(scope: BudgetScope) -> Identity:
    """Tenant admins write every budget; whoever runs episodes, the budgets of episodes."""
    allowed = [Scope.TENANT_ADMIN, Scope.LEDGER_WRITE]
    if scope is BudgetScope.EPISODE:
        allowed.append(Scope.EPISODES_RUN)
    return require_any(*allowed)


def require_budget_read() -> Identity:
    """Whoever may see spending or spend."""
    return require_any(Scope.SPEND_READ, Scope.LEDGER_WRITE, Scope.EPISODES_RUN)


def require_price_write(tenant_only: bool) -> Identity:
    """Tenant admins price for themselves; list prices are the platform's."""
    return require_any(Scope.TENANT_ADMIN if tenant_only else Scope.PLATFORM_ADMIN)

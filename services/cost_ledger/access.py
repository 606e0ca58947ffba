"""Who may do what with money; the tenant is the caller's and nobody else's."""

from cost_ledger.budgets import BudgetScope
from rpckit.identity import Identity, Scope, require_scope


def require_budget_write(scope: BudgetScope) -> Identity:
    """Tenant admins write every budget; whoever runs episodes, the budgets of episodes."""
    allowed = [Scope.TENANT_ADMIN, Scope.LEDGER_WRITE]
    if scope is BudgetScope.EPISODE:
        allowed.append(Scope.EPISODES_RUN)
    return require_scope(*allowed)


def require_budget_read() -> Identity:
    """Whoever may see spending or spend."""
    return require_scope(Scope.SPEND_READ, Scope.LEDGER_WRITE, Scope.EPISODES_RUN)


def require_price_write(tenant_only: bool) -> Identity:
    """Tenant admins price for themselves; list prices are the platform's."""
    return require_scope(Scope.TENANT_ADMIN if tenant_only else Scope.PLATFORM_ADMIN)

"""Who may do what with money; the tenant is the caller's and nobody else's."""

from cost_ledger.budgets.models import BudgetScope
from cost_ledger.spend.models import Report
from podium_kit.rpc.identity import Identity, Scope, require_scope

# What the ids of named budgets begin with that an episode shares with the episodes it calls.
EPISODE_PREFIX = "episode/"


def require_budget_write(scope: BudgetScope, budget_id: str = "") -> Identity:
    """Tenant admins write every budget; whoever runs episodes, the budgets of episodes."""
    allowed = [Scope.TENANT_ADMIN, Scope.LEDGER_WRITE]
    shared = scope is BudgetScope.NAMED and budget_id.startswith(EPISODE_PREFIX)
    if scope is BudgetScope.EPISODE or shared:
        allowed.append(Scope.EPISODES_RUN)
    return require_scope(*allowed)


def require_budget_read() -> Identity:
    """Whoever may see spending or spend."""
    return require_scope(Scope.SPEND_READ, Scope.LEDGER_WRITE, Scope.EPISODES_RUN)


def require_price_write(tenant_only: bool) -> Identity:
    """Tenant admins price for themselves; list prices are the platform's."""
    return require_scope(Scope.TENANT_ADMIN if tenant_only else Scope.PLATFORM_ADMIN)


def require_report(report: Report) -> Identity:
    """Whoever may see spending; over all tenants, the platform's admin."""
    return require_scope(Scope.PLATFORM_ADMIN if report.all_tenants else Scope.SPEND_READ)


def require_audit(tenant: str) -> str:
    """The tenant whose ledger is read: the caller's, or any other for the platform's admin."""
    caller = require_scope(Scope.SPEND_READ)
    if tenant and tenant != caller.tenant:
        require_scope(Scope.PLATFORM_ADMIN)
    return tenant or caller.tenant

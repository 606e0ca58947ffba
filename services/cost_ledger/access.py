"""What the data of a request asks of its caller beyond the scope that its contract states."""

from cost_ledger.budgets.models import BudgetScope
from podium_kit.rpc.identity import Scope, current_identity, require_scope

# What the ids of named budgets begin with that an episode shares with the episodes it calls.
EPISODE_PREFIX = "episode/"


def require_budget_write(scope: BudgetScope, budget_id: str = "") -> None:
    """Whoever runs episodes writes the budgets of episodes, and no others."""
    shared = scope is BudgetScope.NAMED and budget_id.startswith(EPISODE_PREFIX)
    if scope is not BudgetScope.EPISODE and not shared:
        require_scope(Scope.TENANT_ADMIN, Scope.LEDGER_WRITE)


def audited_tenant(tenant: str) -> str:
    """The tenant whose ledger is read: the caller's, or any other for the platform's admin."""
    own = current_identity().tenant
    if tenant and tenant != own:
        require_scope(Scope.PLATFORM_ADMIN)
    return tenant or own

"""Who may write a budget, beyond the scope that the contract states."""

from cost_ledger.budgets.models import BudgetScope
from podium_kit.rpc.identity import Scope, require_scope

# What the ids of named budgets begin with that an episode shares with the episodes it calls.
EPISODE_PREFIX = "episode/"


def require_budget_write(scope: BudgetScope, budget_id: str = "") -> None:
    """Whoever runs episodes writes the budgets of episodes, and no others."""
    shared = scope is BudgetScope.NAMED and budget_id.startswith(EPISODE_PREFIX)
    if scope is not BudgetScope.EPISODE and not shared:
        require_scope(Scope.TENANT_ADMIN, Scope.LEDGER_WRITE)

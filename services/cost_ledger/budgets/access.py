from cost_ledger.budgets.models import Budget, BudgetScope
from cost_ledger.errors import InvalidBudget
from podium_kit.rpc.identity import Scope, current_identity, require_scope

# What the ids of named budgets begin with that an episode shares with the episodes it calls.
EPISODE_PREFIX = "episode/"
# What the ids of budgets begin with that the platform sets for a tenant.
PLATFORM_PREFIX = "platform:"


def require_budget_write(budget: Budget) -> None:
    """Allows the episodes service to write the budgets of episodes, and no others.

    A budget that the platform sets is its admin's alone. Every budget that this admin sets for
    another tenant is one: the tenant's admin could remove any other.
    """
    if budget.id.startswith(PLATFORM_PREFIX):
        require_scope(Scope.PLATFORM_ADMIN)
        return
    if budget.tenant != current_identity().tenant:
        raise InvalidBudget(
            f"the id of a budget for another tenant begins with {PLATFORM_PREFIX}, or its admin "
            f"could change it: use {PLATFORM_PREFIX}{budget.id}"
        )
    shared = budget.scope is BudgetScope.NAMED and budget.id.startswith(EPISODE_PREFIX)
    if budget.scope is not BudgetScope.EPISODE and not shared:
        require_scope(Scope.TENANT_ADMIN, Scope.LEDGER_WRITE)

"""Changes of a budget's limits and end, never of its scope or window.

A change names the version it was made from, so that no change undoes another one unseen; a
repeated one is made once.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cost_ledger.budgets.models import Budget
from cost_ledger.errors import BudgetChanged, InvalidBudget
from podium_kit.money import Money


class BudgetField(StrEnum):
    HARD_LIMIT = "hard_limit"
    SOFT_LIMITS = "soft_limits"
    END_TIME = "end_time"


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """New values of the named fields. Version 0 means whichever the budget has."""

    tenant: str
    budget_id: str
    version: int
    fields: frozenset[BudgetField]
    hard_limit: Money | None = None
    soft_limits: tuple[Money, ...] = ()
    end_time: datetime | None = None

    def __post_init__(self) -> None:
        if not self.fields:
            raise InvalidBudget(
                f"update_mask is unset; name what changes: {', '.join(BudgetField)}"
            )
        if BudgetField.HARD_LIMIT in self.fields and self.hard_limit is None:
            raise InvalidBudget("hard_limit is unset; a budget has one")
        if self.version < 0:
            raise InvalidBudget("version is negative; 0 means whichever it is")

    def applied_to(self, budget: Budget, now: datetime) -> Budget:
        """Returns the changed budget; the same one when nothing changes or the change was made
        before.

        Raises BudgetEnded, BudgetChanged and InvalidBudget.
        """
        budget.check_open(now)
        self._check_currency(budget)
        changed = self._changed(budget)
        made_before = self.version == budget.version - 1 and changed == budget
        if self.version not in (0, budget.version) and not made_before:
            raise BudgetChanged(budget.id, budget.version, self.version)
        if changed == budget:
            return budget
        if BudgetField.END_TIME in self.fields:
            changed.check_end(now)
        return replace(changed, version=budget.version + 1)

    def _changed(self, budget: Budget) -> Budget:
        hard, soft, end = (field in self.fields for field in BudgetField)
        return replace(
            budget,
            hard_limit=self.hard_limit if hard and self.hard_limit else budget.hard_limit,
            soft_limits=self.soft_limits if soft else budget.soft_limits,
            end_time=self.end_time if end else budget.end_time,
        )

    def _check_currency(self, budget: Budget) -> None:
        currency = budget.hard_limit.currency_code
        for limit in (self.hard_limit, *self.soft_limits):
            if limit and limit.currency_code != currency:
                raise InvalidBudget(
                    f"budget {budget.id} counts {currency}; {limit} is another currency: close it "
                    "and create another one"
                )

from dataclasses import dataclass
from datetime import datetime, timedelta

from cost_ledger.errors import InvalidBudget
from podium_kit.money import Money

RAISE_MAX = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class BudgetRaise:
    """An amount added to the hard limit until a time.

    One of zero, which has no end, ended the one before.
    """

    id: str
    amount: Money
    until: datetime | None
    reason: str
    by: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidBudget("reason is blank; say why the budget is raised")
        if self.amount.amount < 0:
            raise InvalidBudget(f"amount {self.amount} is negative; update hard_limit to lower it")
        if self.amount.amount and self.until is None:
            raise InvalidBudget("end_time is unset; a raise ends by itself, at most 31 days ahead")
        if not self.amount.amount and self.until is not None:
            raise InvalidBudget("end_time is set, but an amount of 0 ends the raise now; unset it")

    def check_new(self, now: datetime) -> None:
        if self.until is None:
            return
        if self.until <= now:
            raise InvalidBudget("end_time is in the past; name a time up to 31 days ahead")
        if self.until > now + RAISE_MAX:
            raise InvalidBudget(
                "end_time is more than 31 days ahead; name an earlier one, or update hard_limit "
                "for a limit that stays"
            )

    def holds(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

"""Alerts: a soft limit of a budget was passed in one of its windows.

The database raises them in the transaction that moves the money, once per budget, window
and soft limit, so no caller can forget it and no concurrency can double it. The
relay owes each to the topic until the broker has it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from podium_kit.money import Money


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A soft limit that was passed. `sequence` counts over all tenants, oldest first."""

    sequence: int
    tenant: str
    budget_id: str
    window_start: datetime
    soft_limit: Money
    posted: Money
    hard_limit: Money
    create_time: datetime
    publish_time: datetime | None

    @property
    def id(self) -> str:
        """One per budget, window and soft limit, for ever: consumers drop what they know."""
        start = self.window_start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"{self.tenant}/{self.budget_id}/{start}/{self.soft_limit.amount_string()}"

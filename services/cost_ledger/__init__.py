"""Money before, during and after every billable call: prices, holds, entries, budgets."""

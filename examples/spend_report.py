"""A table of the last days' spending by team, and of the remaining budgets.

pip install ./sdks/python   # from the repository
python spend_report.py --days 7 --by tool,model
"""

import argparse
from datetime import UTC, datetime, timedelta

from podium_client import Podium

parser = argparse.ArgumentParser()
parser.add_argument("--days", type=int, default=7)
parser.add_argument("--by", default="tool,model")
arguments = parser.parse_args()
by = arguments.by.split(",")
start = datetime.now(UTC) - timedelta(days=arguments.days)

with Podium() as podium:
    print(f"{' / '.join(by):40} {'calls':>7} {'cost':>18}")
    for row in podium.ledger.spend(by, start_time=start):
        name = " / ".join(value or "-" for value in row.values)
        cost = ", ".join(f"{each.amount} {each.currency_code}" for each in row.amounts)
        unknown = f" ({row.unpriced_call_count} unpriced)" if row.unpriced_call_count else ""
        print(f"{name:40} {row.call_count:>7} {cost or 'unknown':>18}{unknown}")
    for total in podium.ledger.spend(start_time=start):
        sums = ", ".join(f"{each.amount} {each.currency_code}" for each in total.amounts)
        print(f"{'total':40} {total.call_count:>7} {sums:>18}")
    for status in podium.budgets.list():
        budget, left = status.budget, status.remaining
        # Every episode that named a budget has one of its own.
        if budget and left and not budget.close_time and not budget.id.startswith("episode/"):
            print(f"budget {budget.id}: {left.amount} {left.currency_code} left")

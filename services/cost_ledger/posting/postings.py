"""The postings of each kind of event to the accounts of a tenant.

held, available        money set aside for calls that have not ended, and its contra account
spend                  the true cost of calls
provisional            the worst case of calls that were made and whose usage has not arrived
suspense               calls of unknown price, counted in the unit XXX (ISO 4217: no currency)
payable                amounts due to the providers, against the three above

A call of unknown price is one unit of XXX, so it is in the books without being zero money.
"""

from dataclasses import replace
from decimal import Decimal

from cost_ledger.models import UNPRICED, Postings
from podium_kit.money import Money

ONE = Decimal(1)
NOTHING = Postings()


def hold(amount: Money | None) -> Postings:
    unit, value = _unit_of(amount)
    return Postings(hold_unit=unit, held=value, available=-value)


def give_back(amount: Money | None) -> Postings:
    return opposite(hold(amount))


def spend(amount: Money | None, ended: Postings = NOTHING) -> Postings:
    unit, value = _unit_of(amount)
    if amount is None:
        return replace(ended, unit=unit, suspense=value, payable=-value)
    return replace(ended, unit=unit, spend=value, payable=-value)


def spend_provisionally(amount: Money | None, ended: Postings) -> Postings:
    if amount is None:
        return spend(None, ended)
    unit, value = _unit_of(amount)
    return replace(ended, unit=unit, provisional=value, payable=-value)


def opposite_cost(posted: Postings) -> Postings:
    """Takes a cost back; a hold that it ended stays ended."""
    return replace(opposite(posted), hold_unit="", held=Decimal(0), available=Decimal(0))


def opposite(posted: Postings) -> Postings:
    return Postings(
        posted.hold_unit,
        -posted.held,
        -posted.available,
        posted.unit,
        -posted.spend,
        -posted.provisional,
        -posted.suspense,
        -posted.payable,
    )


def _unit_of(amount: Money | None) -> tuple[str, Decimal]:
    return (amount.currency_code, amount.amount) if amount else (UNPRICED, ONE)

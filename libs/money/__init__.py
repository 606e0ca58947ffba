"""Exact amounts of money."""

from money.money import AMOUNT_PLACES, InvalidMoney, Money

__all__ = ["AMOUNT_PLACES", "InvalidMoney", "Money"]

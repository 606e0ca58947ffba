"""Amounts of the ledger in words: in full, and never an unknown one as zero."""

from collections.abc import Iterable

from podium.common.v1 import money_pb2
from podium_cli.formats import format_money
from podium_kit.money import Money
from podium_kit.wire import money_from_proto, optional_money_from_proto


def exact_money(message: money_pb2.Money) -> str:
    """ "$0.0000125", or "unknown" when it is unset."""
    return format_money(optional_money_from_proto(message))


def sums(messages: Iterable[money_pb2.Money]) -> str:
    """One amount per currency; currencies are never added. "-" for none."""
    return " + ".join(format_money(money_from_proto(each)) for each in messages) or "-"


def added(messages: Iterable[money_pb2.Money]) -> dict[str, Money]:
    """Sums per currency."""
    totals: dict[str, Money] = {}
    for message in messages:
        money = money_from_proto(message)
        code = money.currency_code
        totals[code] = totals[code] + money if code in totals else money
    return totals

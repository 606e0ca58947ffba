from google.protobuf.timestamp_pb2 import Timestamp

from podium.common.v1 import money_pb2
from podium_kit.money import Money
from podium_kit.wire import optional_money_from_proto, timestamp_from_proto

SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£"}


def format_money(money: Money | None) -> str:
    """ "$0.0000125" in full; an unknown cost is never shown as zero."""
    if money is None:
        return "unknown"
    amount = f"{abs(money.amount):f}"
    if "." in amount:
        amount = amount.rstrip("0").rstrip(".")
    sign = "-" if money.amount < 0 else ""
    symbol = SYMBOLS.get(money.currency_code)
    return f"{sign}{symbol}{amount}" if symbol else f"{sign}{amount} {money.currency_code}"


def format_seconds(seconds: float) -> str:
    """ "12 ms", "3.4 s" or "2 min 05 s"."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def format_time(moment: Timestamp) -> str:
    """Local time to the second, or "" when it is unset."""
    if not moment.seconds:
        return ""
    return timestamp_from_proto(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def counted(count: int, noun: str, plural: str = "") -> str:
    """ "1 tool call", "2 tool calls"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def with_unpriced(cost: money_pb2.Money, unpriced_call_count: int) -> str:
    """ "$0.002 and 1 call of unknown price"."""
    words = format_money(optional_money_from_proto(cost))
    if not unpriced_call_count:
        return words
    return f"{words} and {counted(unpriced_call_count, 'call')} of unknown price"

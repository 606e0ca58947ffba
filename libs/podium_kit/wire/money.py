from podium.common.v1 import money_pb2
from podium_kit.money import Money


def money_to_proto(money: Money) -> money_pb2.Money:
    return money_pb2.Money(currency_code=money.currency_code, amount=money.amount_string())


def money_from_proto(message: money_pb2.Money) -> Money:
    """The value. Raises InvalidMoney, also when the message is unset."""
    return Money.parse(message.amount, message.currency_code)


def optional_money_from_proto(message: money_pb2.Money) -> Money | None:
    """The value, or None when the message is unset: unknown, not zero."""
    if not message.amount and not message.currency_code:
        return None
    return money_from_proto(message)

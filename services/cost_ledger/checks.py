from decimal import Decimal

from cost_ledger.errors import InvalidOperation
from cost_ledger.models import UNPRICED, Alternative, Fallback, Subject
from podium_kit.metering import Quantity, Usage
from podium_kit.money import Money

KEY_CHARACTERS_MAX = 200
TEXT_CHARACTERS_MAX = 500
QUANTITY_MAX = Decimal(10) ** 18
QUANTITY_PLACES_MAX = 12
TIME_TO_LIVE_MAX_S = 366 * 86_400.0
ALTERNATIVES_MAX = 50
FALLBACKS_MAX = 20


def check_key(key: str) -> None:
    if not key or len(key) > KEY_CHARACTERS_MAX:
        raise InvalidOperation(f"key must have 1 to {KEY_CHARACTERS_MAX} characters", key=key[:40])
    check_text("key", key)


def check_text(field: str, text: str) -> None:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidOperation(f"{field} has more than {TEXT_CHARACTERS_MAX} characters")
    # PostgreSQL stores no NUL; found here it spoils only its own request.
    if "\0" in text:
        raise InvalidOperation(f"{field} contains a NUL character")


def check_priced(sku: str, service_class: str, region: str) -> None:
    for field, text in (("sku", sku), ("service_class", service_class), ("region", region)):
        check_text(field, text)


def check_alternatives(alternatives: tuple[Alternative, ...]) -> None:
    if len(alternatives) > ALTERNATIVES_MAX:
        raise InvalidOperation(f"more than {ALTERNATIVES_MAX} alternatives; send the likeliest")
    for each in alternatives:
        for field in ("tool", "model", "sku"):
            check_text(f"alternatives.{field}", getattr(each, field))
        check_quantities(each.worst_case)


def check_fallbacks(fallbacks: tuple[Fallback, ...]) -> None:
    if len(fallbacks) > FALLBACKS_MAX:
        raise InvalidOperation(f"more than {FALLBACKS_MAX} fallbacks; send the first ones")
    if len({each.model for each in fallbacks}) != len(fallbacks):
        raise InvalidOperation("a model appears twice in fallbacks")
    for each in fallbacks:
        check_fallback("fallbacks", each)


def check_fallback(field: str, fallback: Fallback) -> None:
    if not fallback.model:
        raise InvalidOperation(f"{field}.model is unset; name the model")
    check_text(f"{field}.model", fallback.model)
    check_text(f"{field}.sku", fallback.sku)


def check_subject(subject: Subject) -> None:
    for field in ("episode_id", "tool", "model", "team", "user", "agent"):
        check_text(f"subject.{field}", getattr(subject, field))
    if subject.turn < 0:
        raise InvalidOperation(f"subject.turn is {subject.turn}; it must not be negative")


def check_usage(usage: Usage) -> None:
    check_text("usage.provider_request_id", usage.provider_request_id)
    check_text("usage.unusable_reason", usage.unusable_reason)
    check_text("usage.service_class", usage.service_class)
    check_quantities(usage.quantities)


def check_quantities(quantities: tuple[Quantity, ...]) -> None:
    if len({quantity.dimension for quantity in quantities}) != len(quantities):
        raise InvalidOperation("a dimension appears twice in one list of quantities")
    for quantity in quantities:
        _check_amount(quantity)


def _check_amount(quantity: Quantity) -> None:
    exponent = quantity.amount.as_tuple().exponent
    too_fine = isinstance(exponent, int) and -exponent > QUANTITY_PLACES_MAX
    if too_fine or quantity.amount >= QUANTITY_MAX:
        raise InvalidOperation(
            f"{quantity.dimension.value} must be below 10^18 with at most "
            f"{QUANTITY_PLACES_MAX} decimals"
        )


def check_time_to_live(seconds: float) -> None:
    if not 0 < seconds <= TIME_TO_LIVE_MAX_S:
        raise InvalidOperation("time_to_live must be above zero and at most 366 days")


def check_money(field: str, money: Money) -> None:
    if money.currency_code == UNPRICED:
        raise InvalidOperation(f"{field} is in {UNPRICED}, which counts calls of unknown price")

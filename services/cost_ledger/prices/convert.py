import re
from decimal import Decimal

from cost_ledger.errors import InvalidPrice
from cost_ledger.fingerprint import decimal_text
from cost_ledger.prices.components import (
    DAYS,
    EVERY_SIZE,
    PriceComponent,
    TokenBand,
    WeeklyHours,
    minute_of,
    time_text,
)
from cost_ledger.prices.models import PriceVersion
from cost_ledger.prices.service import PriceQuestion
from cost_ledger.prices.specs import Placement, PriceChange, PriceKey, PriceSpec
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_kit.metering import Dimension, is_own
from podium_kit.rpc.pages import decode_page_token, encode_page_token
from podium_kit.wire import optional_time, timestamp_to_proto

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?")
_TO_WIRE = {
    dimension: usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{dimension.name}")
    for dimension in Dimension
}
_FROM_WIRE = {number: dimension for dimension, number in _TO_WIRE.items()}
_CHANGES = {change: pb.PriceChange.Value(f"PRICE_CHANGE_{change.name}") for change in PriceChange}


def spec_from_proto(message: pb.PriceSpec, owner: str) -> PriceSpec:
    """A spec without a tenant is the owner's, if it is for a tool that tenants bring along. Raises
    InvalidPrice naming the SKU and the fault.
    """
    tenant = message.tenant or (owner if is_own(message.sku) else "")
    return PriceSpec(
        key=PriceKey(tenant, message.sku, message.service_class, message.region),
        currency_code=message.currency_code,
        components=tuple(_component_from_proto(message.sku, it) for it in message.components),
        start_time=optional_time(message, "start_time"),
        end_time=optional_time(message, "end_time"),
        source=message.source,
        corrects_price_id=message.corrects_price_id,
    )


def question_from_proto(message: pb.GetEffectivePricesRequest) -> PriceQuestion:
    return PriceQuestion(
        at=optional_time(message, "at"),
        known_at=optional_time(message, "known_at"),
        service_class=message.service_class,
        region=message.region,
    )


def created_to_proto(placements: list[Placement]) -> pb.CreatePricesResponse:
    return pb.CreatePricesResponse(
        prices=[price_to_proto(each.version) for each in placements],
        created_count=sum(each.change is not PriceChange.UNCHANGED for each in placements),
        differences=[
            pb.PriceDifference(
                change=_CHANGES[each.change],
                before=price_to_proto(each.before) if each.before else None,
            )
            for each in placements
        ],
    )


def price_to_proto(version: PriceVersion) -> pb.Price:
    spec = pb.PriceSpec(
        sku=version.sku,
        currency_code=version.currency_code,
        components=[_component_to_proto(component) for component in version.components],
        start_time=timestamp_to_proto(version.start_time) if version.start_time else None,
        end_time=timestamp_to_proto(version.end_time) if version.end_time else None,
        tenant=version.tenant,
        source=version.source,
        service_class=version.service_class,
        region=version.region,
    )
    return pb.Price(id=version.id, spec=spec, create_time=timestamp_to_proto(version.create_time))


def after_from_token(page_token: str) -> tuple[str, str]:
    token = decode_page_token(page_token)
    return token.get("sku", ""), token.get("id", "")


def next_prices_page(versions: list[PriceVersion], limit: int) -> str:
    if len(versions) < limit:
        return ""
    return encode_page_token({"sku": versions[-1].sku, "id": versions[-1].id})


def _component_from_proto(sku: str, message: pb.PriceComponent) -> PriceComponent:
    if message.dimension not in _FROM_WIRE:
        raise InvalidPrice(f"a component of {sku} has no dimension; name what is counted")
    return PriceComponent(
        _FROM_WIRE[message.dimension],
        _decimal(f"unit_price of {sku}", message.unit_price),
        _decimal(f"per of {sku}", message.per or "1"),
        TokenBand(message.band.from_tokens, message.band.until_tokens or None),
        _hours_from_proto(message.hours) if message.HasField("hours") else None,
    )


def _component_to_proto(component: PriceComponent) -> pb.PriceComponent:
    band = component.band
    message = pb.PriceComponent(
        dimension=_TO_WIRE[component.dimension],
        unit_price=decimal_text(component.unit_price),
        per=decimal_text(component.per),
        hours=_hours_to_proto(component.hours) if component.hours else None,
    )
    if band != EVERY_SIZE:
        message.band.from_tokens = band.from_tokens
        message.band.until_tokens = band.until_tokens or 0
    return message


def _hours_from_proto(message: pb.WeeklyHours) -> WeeklyHours:
    """The wire counts weekdays from 1, as ISO 8601 does; unset means every day."""
    weekdays = frozenset(number - 1 for number in message.weekdays) or frozenset(range(DAYS))
    return WeeklyHours(weekdays, minute_of(message.start), minute_of(message.end))


def _hours_to_proto(hours: WeeklyHours) -> pb.WeeklyHours:
    every_day = len(hours.weekdays) == DAYS
    return pb.WeeklyHours(
        weekdays=[] if every_day else [pb.Weekday.ValueType(n + 1) for n in sorted(hours.weekdays)],
        start=time_text(hours.start_minute),
        end=time_text(hours.end_minute),
    )


def _decimal(field: str, text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise InvalidPrice(f"{field} is {text[:60]!r}; write a plain decimal like 0.25")
    return Decimal(text)

"""podium.ledger.v1 prices as domain values, and back."""

import re
from decimal import Decimal

from cost_ledger.errors import InvalidPrice
from cost_ledger.fingerprint import decimal_text
from cost_ledger.price_specs import PriceSpec
from cost_ledger.pricing import PriceComponent, PriceVersion
from metering import Dimension
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from rpckit.identity import Identity
from rpckit.pages import decode_page_token, encode_page_token
from wire import timestamp_from_proto, timestamp_to_proto

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?")
_TO_WIRE = {
    dimension: usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{dimension.name}")
    for dimension in Dimension
}
_FROM_WIRE = {number: dimension for dimension, number in _TO_WIRE.items()}


def spec_from_proto(message: pb.PriceSpec, caller: Identity) -> PriceSpec:
    """The spec. Raises InvalidPrice naming the SKU and what is wrong."""
    return PriceSpec(
        tenant=caller.tenant if message.tenant_override else "",
        sku=message.sku,
        currency_code=message.currency_code,
        components=tuple(_component_from_proto(message.sku, it) for it in message.components),
        start_time=(
            timestamp_from_proto(message.start_time) if message.HasField("start_time") else None
        ),
        end_time=timestamp_from_proto(message.end_time) if message.HasField("end_time") else None,
        source=message.source,
    )


def price_to_proto(version: PriceVersion) -> pb.Price:
    """The message of a version."""
    spec = pb.PriceSpec(
        sku=version.sku,
        currency_code=version.currency_code,
        components=[_component_to_proto(component) for component in version.components],
        start_time=timestamp_to_proto(version.start_time) if version.start_time else None,
        end_time=timestamp_to_proto(version.end_time) if version.end_time else None,
        tenant_override=bool(version.tenant),
        source=version.source,
    )
    return pb.Price(id=version.id, spec=spec, create_time=timestamp_to_proto(version.create_time))


def after_from_token(page_token: str) -> tuple[str, str]:
    """SKU and id of the last price of the previous page."""
    token = decode_page_token(page_token)
    return token.get("sku", ""), token.get("id", "")


def next_prices_page(versions: list[PriceVersion], limit: int) -> str:
    """Where the next page starts; empty on the last one."""
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
    )


def _component_to_proto(component: PriceComponent) -> pb.PriceComponent:
    return pb.PriceComponent(
        dimension=_TO_WIRE[component.dimension],
        unit_price=decimal_text(component.unit_price),
        per=decimal_text(component.per),
    )


def _decimal(field: str, text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise InvalidPrice(f"{field} is {text[:60]!r}; write a plain decimal like 0.25")
    return Decimal(text)

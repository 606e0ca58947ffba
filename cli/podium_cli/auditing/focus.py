"""Charges as rows of FOCUS, the FinOps Open Cost and Usage Specification, from 1.0 on.

One row per part of a cost. The billing period is the month of posting, the charge period
the hour of the call. What corrects a cost of an earlier billing period has the charge
class "Correction"; within a period, a correction is a negative row. Calls of unknown price
have no row: FOCUS has no unknown cost, and zero would be wrong.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import audit_pb2
from podium_cli.auditing.explanation_view import dimension_word
from podium_cli.auditing.export_rows import Field, moment
from podium_kit.wire import timestamp_from_proto

TEXT = (
    "AvailabilityZone BillingAccountId BillingAccountName BillingCurrency ChargeCategory "
    "ChargeClass ChargeDescription ChargeFrequency CommitmentDiscountCategory "
    "CommitmentDiscountId CommitmentDiscountName CommitmentDiscountStatus "
    "CommitmentDiscountType ConsumedUnit InvoiceIssuerName PricingCategory PricingUnit "
    "ProviderName PublisherName RegionId RegionName ResourceId ResourceName ResourceType "
    "ServiceCategory ServiceName SkuId SkuPriceId SubAccountId SubAccountName Tags"
)
KINDS = {
    "money": "BilledCost ContractedCost EffectiveCost ListCost",
    "price": "ContractedUnitPrice ListUnitPrice",
    "quantity": "ConsumedQuantity PricingQuantity",
    "time": "BillingPeriodEnd BillingPeriodStart ChargePeriodEnd ChargePeriodStart",
    "text": TEXT,
}
FIELDS = tuple(
    sorted(
        (Field(name, kind) for kind, names in KINDS.items() for name in names.split()),
        key=lambda field: field.name,
    )
)
TOKENS = "tokens"
UNITS = {
    usage_pb2.USAGE_DIMENSION_CALL: "calls",
    usage_pb2.USAGE_DIMENSION_SECOND: "seconds",
    usage_pb2.USAGE_DIMENSION_GPU_SECOND: "accelerator seconds",
    usage_pb2.USAGE_DIMENSION_SEARCH: "searches",
    usage_pb2.USAGE_DIMENSION_DOCUMENT: "documents",
    usage_pb2.USAGE_DIMENSION_IMAGE: "images",
}
PRICING_PLACES = Decimal(1).scaleb(-18)
HOUR = timedelta(hours=1)
Row = dict[str, Any]


def rows_of(charge: audit_pb2.Charge, tenant: str) -> Iterator[Row]:
    """The rows of one charge; none when its cost is unknown."""
    if not charge.entry.HasField("amount"):
        return
    shared = _shared(charge, tenant)
    if not charge.lines:
        yield shared | _costs(Decimal(charge.entry.amount.amount)) | _described(charge, "call")
    for line in charge.lines:
        yield shared | _part(charge, line)


def _shared(charge: audit_pb2.Charge, tenant: str) -> Row:
    entry, posted = charge.entry, moment(charge, "create_time")
    hour = moment(charge, "occur_time").replace(minute=0, second=0, microsecond=0)
    provider = entry.sku.partition("/")[0] or "unknown"
    subject = entry.subject
    period = _month(posted)
    return dict.fromkeys((field.name for field in FIELDS), None) | {
        "BillingAccountId": tenant,
        "BillingAccountName": tenant,
        "BillingCurrency": entry.amount.currency_code,
        "BillingPeriodStart": period,
        "BillingPeriodEnd": _month(period + timedelta(days=31)),
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if _is_of_earlier_period(charge, period) else None,
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": hour,
        "ChargePeriodEnd": hour + HOUR,
        "InvoiceIssuerName": provider,
        "PricingCategory": "Standard",
        "ProviderName": provider,
        "PublisherName": provider,
        "ResourceId": subject.tool or None,
        "ResourceName": subject.tool or None,
        "ResourceType": "Tool" if subject.tool else None,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": subject.model or subject.tool or entry.sku or "unknown",
        "SkuId": entry.sku or None,
        "SkuPriceId": entry.price_version_id or None,
        "SubAccountId": subject.team or subject.user or None,
        "SubAccountName": subject.team or subject.user or None,
        "Tags": _tags(entry),
    }


def _part(charge: audit_pb2.Charge, line: audit_pb2.ChargeLine) -> Row:
    name = dimension_word(line.quantity.dimension)
    unit = UNITS.get(line.quantity.dimension, TOKENS)
    sign = -1 if charge.entry.corrects_sequence else 1
    quantity = sign * Decimal(line.quantity.amount)
    row = {"ConsumedQuantity": quantity, "ConsumedUnit": unit, **_described(charge, name)}
    row |= _costs(Decimal(line.amount.amount or 0))
    if not line.unit_price:
        return row
    price, per = Decimal(line.unit_price), Decimal(line.per)
    return row | {
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingQuantity": (quantity / per).quantize(PRICING_PLACES, ROUND_HALF_EVEN),
        "PricingUnit": unit if per == 1 else f"{per.normalize():f} {unit}",
    }


def _costs(amount: Decimal) -> Row:
    """Podium knows one price per call, so all four costs are what was posted."""
    return dict.fromkeys(KINDS["money"].split(), amount)


def _described(charge: audit_pb2.Charge, part: str) -> Row:
    entry = charge.entry
    return {"ChargeDescription": f"entry {entry.sequence}: {part} of {entry.key}"}


def _is_of_earlier_period(charge: audit_pb2.Charge, period: datetime) -> bool:
    if not charge.HasField("corrected_create_time"):
        return False
    return timestamp_from_proto(charge.corrected_create_time) < period


def _tags(entry: Any) -> str:
    subject = entry.subject
    tags = {
        "podium/sequence": str(entry.sequence),
        "podium/episode": subject.episode_id,
        "podium/model": subject.model,
        "podium/user": subject.user,
        "podium/agent": subject.agent,
        "podium/provider-request": entry.usage.provider_request_id,
    }
    return json.dumps({name: value for name, value in tags.items() if value})


def _month(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, 1, tzinfo=UTC)

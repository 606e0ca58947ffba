"""Charges as rows of FOCUS, the FinOps Open Cost and Usage Specification, 1.0 and 1.2.

One row per part of a cost. The billing period is the month of posting, the charge period
the hour of the call. What corrects a cost of an earlier billing period has the charge
class "Correction"; within a period, a correction is a negative row. Calls of unknown price
have no row: FOCUS has no unknown cost, and zero would be wrong.

focus-validator 1.0.0, the last that runs on Python 3.11, has rules for 1.0 alone, and asks for
four columns by names that the specification never had, and for ChargeType, which 1.0-preview
renamed to ChargeCategory. A table of 1.0 holds these columns, too, after those of the
specification, so that it passes as it is. A table of 1.2 holds what the specification names and
nothing else, and passes focus-validator 2.2.1, which needs Python 3.12.
"""

import json
from collections.abc import Iterator
from datetime import UTC, timedelta
from decimal import Decimal

from cost_ledger.exports.models import Charge, ChargeLine, Month
from cost_ledger.exports.tables import Column, ColumnKind, Row, Table
from cost_ledger.models import Entry
from cost_ledger.prices.components import EXACT
from podium_kit.metering import Dimension

COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
TEXT = """
    AvailabilityZone BillingAccountId BillingAccountName BillingCurrency ChargeCategory
    ChargeClass ChargeDescription ChargeFrequency CommitmentDiscountCategory
    CommitmentDiscountId CommitmentDiscountName CommitmentDiscountStatus
    CommitmentDiscountType ConsumedUnit InvoiceIssuerName PricingCategory PricingUnit
    ProviderName PublisherName RegionId RegionName ResourceId ResourceName ResourceType
    ServiceCategory ServiceName SkuId SkuPriceId SubAccountId SubAccountName Tags
"""
KINDS = {
    **dict.fromkeys(TEXT.split(), ColumnKind.TEXT),
    **dict.fromkeys(COSTS, ColumnKind.MONEY),
    **dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), ColumnKind.PRICE),
    **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), ColumnKind.QUANTITY),
    **dict.fromkeys(("BillingPeriodEnd", "BillingPeriodStart"), ColumnKind.TIME),
    **dict.fromkeys(("ChargePeriodEnd", "ChargePeriodStart"), ColumnKind.TIME),
}
# What the validator asks for, and the column of FOCUS 1.0 that it means.
VALIDATOR_NAMES = {
    "ChargeType": "ChargeCategory",
    "InvoiceIssuer": "InvoiceIssuerName",
    "Provider": "ProviderName",
    "Publisher": "PublisherName",
    "ResourceID": "ResourceId",
}
# An invoice id is null until a charge is matched with an invoice, and exports come before that.
NEW_IN_1_2 = dict.fromkeys(
    ("InvoiceId", "ServiceSubcategory", "SkuMeter", "SkuPriceDetails"), ColumnKind.TEXT
)
UNITS = {
    Dimension.CALL: "calls",
    Dimension.SECOND: "seconds",
    Dimension.GPU_SECOND: "accelerator seconds",
    Dimension.SEARCH: "searches",
    Dimension.DOCUMENT: "documents",
    Dimension.IMAGE: "images",
    Dimension.PROVIDER_COST: "US dollars",
}
PRICING_PLACES = Decimal(1).scaleb(-18)
HOUR = timedelta(hours=1)


def rows_of(charge: Charge) -> Iterator[Row]:
    if charge.entry.cost is None:
        return
    shared = _shared(charge)
    if not charge.lines:
        yield shared | _costs(charge.entry.cost.amount) | _described(charge.entry, "call")
    for line in charge.lines:
        yield shared | _part(charge.entry, line)


def _rows_1_0(charge: Charge) -> Iterator[Row]:
    for row in rows_of(charge):
        yield row | {name: row[meant] for name, meant in VALIDATOR_NAMES.items()}


def _rows_1_2(charge: Charge) -> Iterator[Row]:
    of_model = bool(charge.entry.call.subject.model)
    kind = "Generative AI" if of_model else "Other (AI and Machine Learning)"
    for row in rows_of(charge):
        meter = row.get("ConsumedUnit") if row["SkuId"] else None
        yield row | {"ServiceSubcategory": kind, "SkuMeter": meter}


def _shared(charge: Charge) -> Row:
    entry, period = charge.entry, Month.of(charge.entry.create_time)
    call, subject, cost = entry.call, entry.call.subject, entry.cost
    hour = entry.occur_time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    provider = call.sku.partition("/")[0] or "unknown"
    corrected = charge.corrected_create_time
    return {
        "BillingAccountId": call.tenant,
        "BillingAccountName": call.tenant,
        "BillingCurrency": cost.currency_code if cost else None,
        "BillingPeriodStart": period.start,
        "BillingPeriodEnd": period.end,
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if corrected and corrected < period.start else None,
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": hour,
        "ChargePeriodEnd": hour + HOUR,
        "InvoiceIssuerName": provider,
        "PricingCategory": "Standard",
        "ProviderName": provider,
        "PublisherName": provider,
        "ResourceId": subject.tool,
        "ResourceName": subject.tool,
        "ResourceType": "Tool" if subject.tool else None,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": subject.model or subject.tool or call.sku or "unknown",
        "SkuId": call.sku,
        "SkuPriceId": entry.price_version_id,
        "SubAccountId": subject.team or subject.user,
        "SubAccountName": subject.team or subject.user,
        "Tags": _tags(entry),
    }


def _part(entry: Entry, line: ChargeLine) -> Row:
    unit = UNITS.get(line.quantity.dimension, "tokens")
    quantity = line.quantity.amount
    row: Row = {"ConsumedQuantity": quantity, "ConsumedUnit": unit}
    row |= _costs(line.amount) | _described(entry, line.dimension_text)
    if line.component is None:
        return row
    price, per = line.component.unit_price, line.component.per
    return row | {
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingQuantity": EXACT.divide(quantity, per).quantize(PRICING_PLACES, context=EXACT),
        "PricingUnit": unit if per == 1 else f"{per.normalize():f} {unit}",
    }


def _costs(amount: Decimal) -> Row:
    """Podium knows one price per call, so all four costs are what was posted."""
    return dict.fromkeys(COSTS, amount)


def _described(entry: Entry, part: str) -> Row:
    return {"ChargeDescription": f"entry {entry.sequence}: {part} of {entry.call.key}"}


def _tags(entry: Entry) -> str:
    subject = entry.call.subject
    tags = {
        "podium/sequence": str(entry.sequence),
        "podium/episode": subject.episode_id,
        "podium/model": subject.model,
        "podium/user": subject.user,
        "podium/agent": subject.agent,
        "podium/provider-request": entry.usage.provider_request_id if entry.usage else "",
    }
    return json.dumps({name: value for name, value in tags.items() if value})


def _columns(kinds: dict[str, ColumnKind]) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in sorted(kinds.items()))


FOCUS_1_0 = Table((*_columns(KINDS), *map(Column, VALIDATOR_NAMES)), _rows_1_0)
FOCUS_1_2 = Table(_columns(KINDS | NEW_IN_1_2), _rows_1_2)

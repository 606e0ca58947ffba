"""What the ledger can be asked to do; each carries its tenant and the caller's key."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from cost_ledger.errors import InvalidOperation
from cost_ledger.fingerprint import fingerprint, quantities_text, usage_text
from cost_ledger.models import Alternative, Subject, UnknownPricePolicy
from metering import Quantity, Usage
from money import Money

KEY_CHARACTERS_MAX = 200
TEXT_CHARACTERS_MAX = 500
QUANTITY_MAX = Decimal(10) ** 18
QUANTITY_PLACES_MAX = 12
TIME_TO_LIVE_MAX_S = 366 * 86_400.0
ALTERNATIVES_MAX = 50


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold the worst case of a call."""

    name: ClassVar[str] = "reserve"
    tenant: str
    key: str
    subject: Subject
    sku: str
    worst_case: tuple[Quantity, ...]
    unknown_price: UnknownPricePolicy
    ceiling: Money | None
    time_to_live_s: float
    budget_ids: tuple[str, ...] = ()
    service_class: str = ""
    region: str = ""
    alternatives: tuple[Alternative, ...] = ()
    # Fewest output tokens the call is worth making for; 0 means all that are asked.
    min_output_tokens: int = 0

    def __post_init__(self) -> None:
        check_key(self.key)
        check_subject(self.subject)
        check_priced(self.sku, self.service_class, self.region)
        check_quantities(self.worst_case)
        check_alternatives(self.alternatives)
        if self.min_output_tokens < 0:
            raise InvalidOperation("min_output_tokens must not be negative")
        for budget_id in self.budget_ids:
            check_text("budget_ids", budget_id)
        if not 0 < self.time_to_live_s <= TIME_TO_LIVE_MAX_S:
            raise InvalidOperation("time_to_live must be above zero and at most 366 days")
        self._check_ceiling()

    def _check_ceiling(self) -> None:
        if self.unknown_price is not UnknownPricePolicy.ADMIT_AT_CEILING:
            return
        if self.ceiling is None:
            raise InvalidOperation("ceiling is unset; ADMIT_AT_CEILING needs one")
        if self.ceiling.amount < 0:
            raise InvalidOperation(f"ceiling is {self.ceiling}; it must not be negative")

    def request_hash(self) -> str:
        """What a retry must repeat."""
        return fingerprint(
            subject=self.subject,
            sku=self.sku,
            worst_case=quantities_text(self.worst_case),
            unknown_price=self.unknown_price.value,
            ceiling=self.ceiling and str(self.ceiling),
            time_to_live_s=self.time_to_live_s,
            budget_ids=sorted(set(self.budget_ids)),
            service_class=self.service_class,
            region=self.region,
            alternatives=[
                [each.tool, each.model, each.sku, quantities_text(each.worst_case)]
                for each in self.alternatives
            ],
            min_output_tokens=self.min_output_tokens or None,
        )


@dataclass(frozen=True, slots=True)
class Capture:
    """Post the true cost of a held call."""

    name: ClassVar[str] = "capture"
    tenant: str
    key: str
    usage: Usage
    occur_time: datetime | None = None

    def __post_init__(self) -> None:
        check_key(self.key)
        check_usage(self.usage)

    def request_hash(self) -> str:
        """What a retry must repeat."""
        return fingerprint(usage=usage_text(self.usage), occur_time=_iso(self.occur_time))


@dataclass(frozen=True, slots=True)
class Release:
    """Give a hold back. With `only_if_open`, a hold that ended another way is left alone."""

    name: ClassVar[str] = "release"
    tenant: str
    key: str
    only_if_open: bool = False

    def __post_init__(self) -> None:
        check_key(self.key)


@dataclass(frozen=True, slots=True)
class Record:
    """Post a cost that had no hold."""

    name: ClassVar[str] = "record"
    tenant: str
    key: str
    subject: Subject
    sku: str
    usage: Usage
    occur_time: datetime | None = None
    service_class: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        check_subject(self.subject)
        check_priced(self.sku, self.service_class, self.region)
        check_usage(self.usage)

    def request_hash(self) -> str:
        """What a retry must repeat."""
        return fingerprint(
            subject=self.subject,
            sku=self.sku,
            usage=usage_text(self.usage),
            occur_time=_iso(self.occur_time),
            service_class=self.service_class,
            region=self.region,
        )


@dataclass(frozen=True, slots=True)
class Reverse:
    """Post the opposite of an earlier entry."""

    name: ClassVar[str] = "reverse"
    tenant: str
    key: str
    sequence: int
    reason: str

    def __post_init__(self) -> None:
        check_key(self.key)
        check_text("reason", self.reason)
        if self.sequence < 1:
            raise InvalidOperation("sequence is unset; name the entry to reverse")
        if not self.reason:
            raise InvalidOperation("reason is unset; the auditor will ask")

    def request_hash(self) -> str:
        """What a retry must repeat."""
        return fingerprint(sequence=self.sequence, reason=self.reason)


@dataclass(frozen=True, slots=True)
class Expire:
    """Post the worst case of a hold whose truth never arrived; the sweep asks for it."""

    name: ClassVar[str] = "expire"
    tenant: str
    key: str


Operation = Reserve | Capture | Release | Record | Reverse | Expire
# All of it is applied, in order, or none of it.
Batch = tuple[Operation, ...]


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


def check_subject(subject: Subject) -> None:
    for field in ("episode_id", "tool", "model", "team", "user", "agent"):
        check_text(f"subject.{field}", getattr(subject, field))
    if subject.turn < 0:
        raise InvalidOperation(f"subject.turn is {subject.turn}; it must not be negative")


def check_usage(usage: Usage) -> None:
    check_text("usage.provider_request_id", usage.provider_request_id)
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


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None

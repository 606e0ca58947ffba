from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cost_ledger.checks import check_text
from cost_ledger.errors import ForeignPrice, InvalidPrice, PriceNotFound, PriceOverlap
from cost_ledger.prices.components import PriceComponent, check_components
from cost_ledger.prices.models import PriceVersion
from podium_kit.metering import is_own
from podium_kit.money import Money


class PriceChange(StrEnum):
    NEW = "new"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    CORRECTED = "corrected"


@dataclass(frozen=True, slots=True)
class PriceKey:
    """The identity of a price, with one version at a time. No tenant means the list price."""

    tenant: str
    sku: str
    service_class: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class PriceSpec:
    key: PriceKey
    currency_code: str
    components: tuple[PriceComponent, ...]
    start_time: datetime | None
    end_time: datetime | None
    source: str
    corrects_price_id: str = ""

    def __post_init__(self) -> None:
        sku = self.key.sku
        for field in ("sku", "service_class", "region"):
            check_text(field, getattr(self.key, field))
        check_text("source", self.source)
        if not sku:
            raise InvalidPrice("sku is unset; name what is priced")
        Money.zero(self.currency_code)
        check_components(sku, self.components)
        if self.start_time and self.end_time and self.end_time <= self.start_time:
            raise InvalidPrice(f"{sku} ends before it starts")

    def is_owned_by(self, tenant: str) -> bool:
        """Returns whether it prices a tenant's own tool, for that tenant alone."""
        return is_own(self.key.sku) and self.key.tenant == tenant

    def same_price(self, version: PriceVersion) -> bool:
        """Returns whether the version charges the same; its author does not matter."""
        same_parts = set(self.components) == set(version.components)
        return version.currency_code == self.currency_code and same_parts


def check_owned(specs: Iterable[PriceSpec], tenant: str) -> None:
    """Raises ForeignPrice for the first one that is the operator's to set."""
    for spec in specs:
        if not spec.is_owned_by(tenant):
            raise ForeignPrice(spec.key.sku, tenant)


@dataclass(frozen=True, slots=True)
class Placement:
    """A version and its effect on the one before it.

    `before` stops being known; `shortened` is the same version with its remaining validity, None
    when there is none.
    """

    version: PriceVersion
    change: PriceChange
    before: PriceVersion | None = None
    shortened: PriceVersion | None = None
    end_is_given: bool = False


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version, and whether its end was given by its author or by its successor's start."""

    version: PriceVersion
    end_is_given: bool


def place(
    spec: PriceSpec, stored: list[StoredVersion], version_id: str, now: datetime
) -> Placement:
    """Fits a spec among the versions of its key. Raises PriceOverlap, PriceNotFound.

    A new version starts where the old one ends: an older version without a given end
    is cut at the new start, and a new one without an end lasts until the next start.
    A correction takes the place of the version it names.
    """
    existing = _existing(spec, stored, now)
    if existing:
        return Placement(existing, PriceChange.UNCHANGED)
    if spec.corrects_price_id:
        return _correction(spec, stored, version_id, now)
    start = spec.start_time if spec.start_time or not stored else now
    later = [entry.version for entry in stored if _starts_after(entry.version, start)]
    end = spec.end_time or min((v.start_time for v in later if v.start_time), default=None)
    version = _version(spec, version_id, start, end, now)
    before = _ended(version, stored)
    shortened = replace(before, end_time=start) if before else None
    _check_free(version, [shortened if each == before else each for each in _versions(stored)])
    change = PriceChange.CHANGED if before else PriceChange.NEW
    return Placement(version, change, before, shortened, spec.end_time is not None)


def _correction(
    spec: PriceSpec, stored: list[StoredVersion], version_id: str, now: datetime
) -> Placement:
    wrong = next((each for each in stored if each.version.id == spec.corrects_price_id), None)
    if wrong is None:
        raise PriceNotFound(spec.corrects_price_id, spec.key.sku)
    start = spec.start_time or wrong.version.start_time
    end = spec.end_time or wrong.version.end_time
    version = _version(spec, version_id, start, end, now)
    _check_free(version, [each for each in _versions(stored) if each != wrong.version])
    end_is_given = wrong.end_is_given or spec.end_time is not None
    return Placement(version, PriceChange.CORRECTED, wrong.version, None, end_is_given)


def _version(
    spec: PriceSpec, version_id: str, start: datetime | None, end: datetime | None, now: datetime
) -> PriceVersion:
    if start and end and end <= start:
        raise InvalidPrice(
            f"{spec.key.sku} ends before it starts, which is {start:%Y-%m-%dT%H:%M:%SZ} where no"
            " start is given; give start_time"
        )
    return PriceVersion(
        id=version_id,
        tenant=spec.key.tenant,
        sku=spec.key.sku,
        currency_code=spec.currency_code,
        components=spec.components,
        start_time=start,
        end_time=end,
        source=spec.source,
        create_time=now,
        service_class=spec.key.service_class,
        region=spec.key.region,
    )


def _versions(stored: list[StoredVersion]) -> list[PriceVersion]:
    return [entry.version for entry in stored]


def _existing(spec: PriceSpec, stored: list[StoredVersion], now: datetime) -> PriceVersion | None:
    for version in _versions(stored):
        in_place = (
            version.start_time == spec.start_time if spec.start_time else version.holds_at(now)
        )
        same_end = not spec.end_time or version.end_time == spec.end_time
        if in_place and same_end and spec.same_price(version):
            return version
    return None


def _starts_after(version: PriceVersion, start: datetime | None) -> bool:
    return version.start_time is not None and (start is None or version.start_time > start)


def _ended(version: PriceVersion, stored: list[StoredVersion]) -> PriceVersion | None:
    start = version.start_time
    for entry in stored:
        old = entry.version
        if start and not entry.end_is_given and old.holds_at(start) and old.start_time != start:
            return old
    return None


def _check_free(version: PriceVersion, others: list[PriceVersion | None]) -> None:
    for other in others:
        if other and _overlap(version, other):
            raise PriceOverlap(version.sku, other.id)


def _overlap(one: PriceVersion, other: PriceVersion) -> bool:
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: PriceVersion, other: PriceVersion) -> bool:
    if one.start_time is None or other.end_time is None:
        return True
    return one.start_time < other.end_time

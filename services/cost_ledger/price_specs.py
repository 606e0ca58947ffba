"""What the author of a price writes, and where its version fits among those there are."""

from dataclasses import dataclass, replace
from datetime import datetime

from cost_ledger.errors import InvalidPrice, PriceOverlap
from cost_ledger.operations import check_text
from cost_ledger.pricing import PriceComponent, PriceVersion
from money import Money


@dataclass(frozen=True, slots=True)
class PriceSpec:
    """A price to add. `tenant` is empty for a list price; None times are unset."""

    tenant: str
    sku: str
    currency_code: str
    components: tuple[PriceComponent, ...]
    start_time: datetime | None
    end_time: datetime | None
    source: str

    def __post_init__(self) -> None:
        check_text("sku", self.sku)
        check_text("source", self.source)
        if not self.sku:
            raise InvalidPrice("sku is unset; name what is priced")
        Money.zero(self.currency_code)
        if not self.components:
            raise InvalidPrice(f"{self.sku} has no component; what is free has unit_price 0")
        if len({entry.dimension for entry in self.components}) != len(self.components):
            raise InvalidPrice(f"{self.sku} prices a dimension twice")
        if self.start_time and self.end_time and self.end_time <= self.start_time:
            raise InvalidPrice(f"{self.sku} ends before it starts")

    def same_price(self, version: PriceVersion) -> bool:
        """Whether the version charges the same, whoever wrote it down."""
        mine = {(entry.dimension, entry.unit_price, entry.per) for entry in self.components}
        its = {(entry.dimension, entry.unit_price, entry.per) for entry in version.components}
        return version.currency_code == self.currency_code and mine == its


@dataclass(frozen=True, slots=True)
class Placement:
    """A new version, and the one it ends, cut short; or the version that existed already."""

    version: PriceVersion
    is_new: bool
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
    """Fits a spec among the versions of its SKU. Raises PriceOverlap.

    A new version starts where the old one ends: an older version without a given end
    is cut at the new start, and a new one without an end lasts until the next start.
    """
    existing = _existing(spec, stored, now)
    if existing:
        return Placement(existing, is_new=False)
    start = spec.start_time if spec.start_time or not stored else now
    later = [entry.version for entry in stored if _starts_after(entry.version, start)]
    end = spec.end_time or min((v.start_time for v in later if v.start_time), default=None)
    version = PriceVersion(
        version_id,
        spec.tenant,
        spec.sku,
        spec.currency_code,
        spec.components,
        start,
        end,
        spec.source,
        now,
    )
    shortened = _shortened(version, stored)
    _check_free(version, stored, shortened)
    return Placement(version, True, shortened, spec.end_time is not None)


def _existing(spec: PriceSpec, stored: list[StoredVersion], now: datetime) -> PriceVersion | None:
    """The version a repeated spec already has."""
    for entry in stored:
        version = entry.version
        in_place = (
            version.start_time == spec.start_time if spec.start_time else version.holds_at(now)
        )
        same_end = not spec.end_time or version.end_time == spec.end_time
        if in_place and same_end and spec.same_price(version):
            return version
    return None


def _starts_after(version: PriceVersion, start: datetime | None) -> bool:
    return version.start_time is not None and (start is None or version.start_time > start)


def _shortened(version: PriceVersion, stored: list[StoredVersion]) -> PriceVersion | None:
    """The open version that the new one ends."""
    start = version.start_time
    for entry in stored:
        old = entry.version
        if start and not entry.end_is_given and old.holds_at(start) and old.start_time != start:
            return replace(old, end_time=start)
    return None


def _check_free(
    version: PriceVersion, stored: list[StoredVersion], shortened: PriceVersion | None
) -> None:
    for entry in stored:
        other = shortened if shortened and shortened.id == entry.version.id else entry.version
        if _overlap(version, other):
            raise PriceOverlap(version.sku)


def _overlap(one: PriceVersion, other: PriceVersion) -> bool:
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: PriceVersion, other: PriceVersion) -> bool:
    if one.start_time is None or other.end_time is None:
        return True
    return one.start_time < other.end_time

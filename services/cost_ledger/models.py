from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from podium_kit.metering import Quantity, Usage
from podium_kit.money import Money

ZERO = Decimal(0)
# ISO 4217's code for "no currency": the unit that counts calls of unknown price.
UNPRICED = "XXX"


class HoldState(StrEnum):
    """A hold leaves OPEN exactly once."""

    OPEN = "open"
    CAPTURED = "captured"
    RELEASED = "released"
    PROVISIONAL = "provisional"


class RejectionReason(StrEnum):
    BUDGET_EXHAUSTED = "budget_exhausted"
    UNKNOWN_PRICE = "unknown_price"
    BUDGET_HELD = "budget_held"


class UnknownPricePolicy(StrEnum):
    """A call whose price is unknown never costs 0."""

    REJECT = "reject"
    ADMIT_AT_CEILING = "admit_at_ceiling"
    ADMIT = "admit"


class EntryKind(StrEnum):
    RESERVE = "reserve"
    CAPTURE = "capture"
    RELEASE = "release"
    RECORD = "record"
    ADJUST = "adjust"
    SETTLE = "settle"
    DISPATCH = "dispatch"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Subject:
    """The attributes of a call that its cost is charged and reported by, within a tenant."""

    episode_id: str = ""
    turn: int = 0
    tool: str = ""
    model: str = ""
    team: str = ""
    user: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class BudgetWindowKey:
    """One window of one budget; what it counts is in `currency_code`.

    It counts the holds of all calls that `model` may answer and the costs of those that it did
    answer; "" is any model.
    """

    tenant: str
    budget_id: str
    start: datetime
    currency_code: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    tenant: str
    key: str
    subject: Subject
    sku: str
    windows: tuple[BudgetWindowKey, ...] = ()
    service_class: str = ""
    region: str = ""
    policy_version: str = ""

    @property
    def columns(self) -> tuple[str | int, ...]:
        """All fields but the windows, in the order in which they are stored and hashed."""
        subject = self.subject
        return (
            self.tenant,
            self.key,
            subject.episode_id,
            subject.turn,
            subject.tool,
            subject.model,
            subject.team,
            subject.user,
            subject.agent,
            self.sku,
            self.service_class,
            self.region,
            self.policy_version,
        )


@dataclass(frozen=True, slots=True)
class Fallback:
    """A model that may answer instead, and the price it was admitted at; "" is unknown."""

    model: str
    sku: str
    price_version_id: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    tool: str
    model: str
    sku: str
    worst_case: tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class FittingAlternative:
    tool: str
    model: str
    worst_case_cost: Money


@dataclass(frozen=True, slots=True)
class Rejection:
    reason: RejectionReason
    message: str
    budget_id: str = ""
    remaining: Money | None = None
    fitting_output_tokens: int | None = None
    alternative: FittingAlternative | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The answer to the first request of a key: an entry's sequence or a rejection.

    `occur_time` is the time that the request itself named: once its period is closed, a retry is
    rejected by that time, and the answer may be forgotten.
    """

    request_hash: str
    sequence: int
    rejection: Rejection | None = None
    occur_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Money held before a billable call. `amount` is None when the price is unknown."""

    call: Call
    worst_case: tuple[Quantity, ...]
    amount: Money | None
    state: HoldState
    price_version_id: str
    create_time: datetime
    expire_time: datetime
    # Whether the call was about to be made: overdue, it becomes a cost instead of nothing.
    dispatched: bool = False
    # The capture of the call: the provisional one until the true one replaces it.
    posted_sequence: int = 0
    # Models that may answer instead; `amount` covers the most expensive of them.
    fallbacks: tuple[Fallback, ...] = ()
    # The answers to the requests that made and captured it.
    reserved: IdempotencyRecord | None = None
    captured: IdempotencyRecord | None = None


@dataclass(frozen=True, slots=True)
class Postings:
    """The amounts of an entry by account: debits are positive, each unit sums to zero.

    `held` and `available` are in `hold_unit`, the others in `unit`; an unset unit has no amounts.
    """

    hold_unit: str = ""
    held: Decimal = ZERO
    available: Decimal = ZERO
    unit: str = ""
    spend: Decimal = ZERO
    provisional: Decimal = ZERO
    suspense: Decimal = ZERO
    payable: Decimal = ZERO

    def by_account(self) -> Iterator[tuple[str, str, Decimal]]:
        units = {"held": self.hold_unit, "available": self.hold_unit}
        for account in ("held", "available", "spend", "provisional", "suspense", "payable"):
            if amount := getattr(self, account):
                yield account, units.get(account, self.unit), amount


@dataclass(frozen=True, slots=True)
class Entry:
    """One immutable line of a tenant's journal, chained to the line before it."""

    sequence: int
    kind: EntryKind
    call: Call
    postings: Postings
    price_version_id: str
    occur_time: datetime
    create_time: datetime
    usage: Usage | None = None
    # What a reserve or an extension was priced by.
    worst_case: tuple[Quantity, ...] = ()
    dispatched: bool = False
    expire_time: datetime | None = None
    corrects_sequence: int = 0
    reason: str = ""
    # SHA-256 over the hash before it and this entry; see chain.py.
    hash: bytes = b""

    @property
    def amount(self) -> Money | None:
        """Money held or given back, or the cost; None when the price is unknown."""
        posted = self.postings
        if self.kind is EntryKind.RELEASE:
            return _money(-posted.held, posted.hold_unit)
        if self.kind is EntryKind.RESERVE:
            return _money(posted.held, posted.hold_unit)
        return self.cost

    @property
    def cost(self) -> Money | None:
        """The change of the cost of calls; None when the price is unknown."""
        return _money(-self.postings.payable, self.postings.unit)

    def adjusted_by(self, change: Decimal) -> "Entry":
        posted = self.postings
        changed = replace(posted, spend=posted.spend + change, payable=posted.payable - change)
        return replace(self, postings=changed)


def _money(amount: Decimal, unit: str) -> Money | None:
    return Money(amount, unit) if unit not in ("", UNPRICED) else None

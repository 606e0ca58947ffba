"""Operations on the ledger; each carries its tenant and the caller's key."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from cost_ledger.checks import (
    check_alternatives,
    check_fallback,
    check_fallbacks,
    check_key,
    check_money,
    check_priced,
    check_quantities,
    check_subject,
    check_text,
    check_time_to_live,
    check_usage,
)
from cost_ledger.errors import InvalidOperation
from cost_ledger.fingerprint import fingerprint, moment_text, quantities_text, usage_text
from cost_ledger.models import Alternative, Fallback, Subject, UnknownPricePolicy
from podium_kit.metering import Quantity, Usage
from podium_kit.money import Money


@dataclass(frozen=True, slots=True)
class Reserve:
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
    # The call is made as soon as money is held: overdue, the hold becomes a cost.
    dispatched: bool = False
    policy_version: str = ""
    # Models that may answer instead.
    fallbacks: tuple[Fallback, ...] = ()
    # Whether a rejection for what others hold is only for now, and so not in the request's hash.
    asks_again: bool = False
    # What the caller belongs to besides the subject's: their budgets are charged, too.
    teams: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_key(self.key)
        check_subject(self.subject)
        check_priced(self.sku, self.service_class, self.region)
        check_quantities(self.worst_case)
        check_alternatives(self.alternatives)
        check_fallbacks(self.fallbacks)
        if self.min_output_tokens < 0:
            raise InvalidOperation("min_output_tokens must not be negative")
        for field in ("budget_ids", "teams", "agents", "keys"):
            for name in getattr(self, field):
                check_text(field, name)
        check_time_to_live(self.time_to_live_s)
        check_text("policy_version", self.policy_version)
        self._check_ceiling()

    @property
    def unpriced_amount(self) -> Money | None:
        """The held amount of a call of unknown price; None is no amount."""
        at_ceiling = self.unknown_price is UnknownPricePolicy.ADMIT_AT_CEILING
        return self.ceiling if at_ceiling else None

    def _check_ceiling(self) -> None:
        if self.unknown_price is not UnknownPricePolicy.ADMIT_AT_CEILING:
            return
        if self.ceiling is None:
            raise InvalidOperation("ceiling is unset; ADMIT_AT_CEILING needs one")
        check_money("ceiling", self.ceiling)
        if self.ceiling.amount < 0:
            raise InvalidOperation(f"ceiling is {self.ceiling}; it must not be negative")

    def request_hash(self) -> str:
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
            dispatched=self.dispatched or None,
            policy_version=self.policy_version,
            fallbacks=[[each.model, each.sku] for each in self.fallbacks],
            teams=sorted(set(self.teams)) or None,
            agents=sorted(set(self.agents)) or None,
            keys=sorted(set(self.keys)) or None,
        )


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Note that the held call is about to be made. Repeating it changes nothing."""

    name: ClassVar[str] = "dispatch"
    tenant: str
    key: str

    def __post_init__(self) -> None:
        check_key(self.key)


@dataclass(frozen=True, slots=True)
class Capture:
    name: ClassVar[str] = "capture"
    tenant: str
    key: str
    usage: Usage
    occur_time: datetime | None = None
    # The fallback that answered; None: the model that was asked for.
    answered_by: Fallback | None = None

    def __post_init__(self) -> None:
        check_key(self.key)
        check_usage(self.usage)
        if self.answered_by:
            check_fallback("answered_by", self.answered_by)

    def request_hash(self) -> str:
        by = self.answered_by
        return fingerprint(
            usage=usage_text(self.usage),
            occur_time=moment_text(self.occur_time),
            answered_by=by and [by.model, by.sku],
        )


@dataclass(frozen=True, slots=True)
class Release:
    """With `only_if_open`, a hold that ended another way stays unchanged."""

    name: ClassVar[str] = "release"
    tenant: str
    key: str
    only_if_open: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        check_text("reason", self.reason)


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
    policy_version: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        check_subject(self.subject)
        check_priced(self.sku, self.service_class, self.region)
        check_text("policy_version", self.policy_version)
        check_usage(self.usage)

    def request_hash(self) -> str:
        return fingerprint(
            subject=self.subject,
            sku=self.sku,
            usage=usage_text(self.usage),
            occur_time=moment_text(self.occur_time),
            service_class=self.service_class,
            region=self.region,
            policy_version=self.policy_version,
        )


@dataclass(frozen=True, slots=True)
class Expire:
    """End an overdue hold: post its worst case, or give it back; the sweep asks for it."""

    name: ClassVar[str] = "expire"
    tenant: str
    key: str


@dataclass(frozen=True, slots=True)
class Adjust:
    name: ClassVar[str] = "adjust"
    tenant: str
    key: str
    sequence: int
    change: Money
    reason: str

    def __post_init__(self) -> None:
        check_key(self.key)
        check_text("reason", self.reason)
        if self.sequence < 1:
            raise InvalidOperation("sequence is unset; name the entry to correct")
        if not self.reason:
            raise InvalidOperation("reason is unset; the auditor will ask")
        check_money("change", self.change)
        if not self.change.amount:
            raise InvalidOperation("change is 0; there is nothing to adjust")

    def request_hash(self) -> str:
        return fingerprint(sequence=self.sequence, change=str(self.change), reason=self.reason)


@dataclass(frozen=True, slots=True)
class Settle:
    """Replaces a provisional, estimated or unknown cost by the true one. `key` is the hold's.

    Without a usage the recorded one is charged at the price that is known by now.
    """

    name: ClassVar[str] = "settle"
    tenant: str
    key: str
    usage: Usage | None

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.usage is not None:
            check_usage(self.usage)

    def request_hash(self) -> str:
        return fingerprint(usage="" if self.usage is None else usage_text(self.usage))


@dataclass(frozen=True, slots=True)
class ClosePeriod:
    name: ClassVar[str] = "close"
    tenant: str
    key: str
    end_time: datetime

    def __post_init__(self) -> None:
        check_key(self.key)

    def request_hash(self) -> str:
        return fingerprint(end_time=moment_text(self.end_time))

"""Errors of the cost ledger: each names the cause and the fix."""

from collections.abc import Sequence

from podium_kit.metering import OWN
from podium_kit.rpc.errors import (
    Aborted,
    AlreadyExists,
    DomainError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)


class InvalidOperation(InvalidArgument):
    """The operation cannot be understood or priced exactly."""


class AuditBusy(ResourceExhausted):
    """Other audits take all of the time that a request waits."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            "other audits of this tenant, or of others, are under way; send the same request again "
            "when they have ended",
            retry_after_s=retry_after_s,
        )


class InvalidPrice(InvalidArgument):
    """The price cannot be understood exactly."""


class ForeignPrice(PermissionDenied):
    """A tenant sets a price that is the operator's."""

    def __init__(self, sku: str, tenant: str) -> None:
        super().__init__(
            f"the price of {sku[:200]!r} is the operator's: {tenant} prices SKUs that start with "
            f"{OWN!r}, of tools it brings along; ask a platform administrator for any other",
            sku=sku[:200],
        )


class InvalidBudget(InvalidArgument):
    """The budget cannot be enforced."""


class InvalidReport(InvalidArgument):
    """The report asks for something that cannot be summed."""


class InvalidMonth(InvalidArgument):
    """The text is no month."""

    def __init__(self, text: str) -> None:
        super().__init__(f"month is {text[:40]!r}; write one of 1000-01 to 9998-12, like 2026-10")


class InvalidInvoice(InvalidArgument):
    """The invoice or a line of it cannot be compared."""


class InvalidSimulation(InvalidArgument):
    """The other prices or the window cannot be simulated."""


class EntryUnknown(NotFound):
    """Neither a sequence nor a key of the tenant."""

    def __init__(self, tenant: str, entry: str) -> None:
        super().__init__(
            f"the journal of {tenant} has no entry {entry[:200]!r}; "
            "give its sequence or the key of its call"
        )


class InvoiceNotFound(NotFound):
    """No invoice with the id, for this tenant."""

    def __init__(self, invoice_id: str) -> None:
        super().__init__(
            f"there is no invoice {invoice_id}; add its lines first", invoice=invoice_id
        )


class InvoiceConflict(AlreadyExists):
    """The id or the position is taken by something else; nothing was changed."""

    def __init__(self, invoice_id: str, what: str) -> None:
        super().__init__(
            f"invoice {invoice_id} has another {what} already; use a new id for another file",
            invoice=invoice_id,
        )


class NothingAnchored(NotFound):
    """No signed root covers the entry yet."""

    def __init__(self, sequence: int) -> None:
        super().__init__(
            f"no signed root covers entry {sequence} yet; roots are signed after the day ends",
            sequence=sequence,
        )


class KeyReused(AlreadyExists):
    """The key is taken by an operation with other content; nothing was changed."""

    def __init__(self, operation: str, key: str) -> None:
        super().__init__(
            f"{operation} {key} was already answered with other content; use a new key", key=key
        )


class HoldNotFound(NotFound):
    """No hold was reserved under the key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no money is held under the key {key}; reserve it first", key=key)


class HoldClosed(FailedPrecondition):
    """The hold has already ended another way."""

    def __init__(self, key: str, state: str, wanted: str) -> None:
        super().__init__(f"the hold {key} is {state}; it cannot be {wanted}", key=key)


class EntryNotFound(NotFound):
    """The tenant's journal has no such entry."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"the journal has no entry {sequence}", sequence=sequence)


class NotReversible(FailedPrecondition):
    """Only a final cost that nothing corrected yet can be reversed."""

    def __init__(self, sequence: int, cause: str) -> None:
        super().__init__(f"entry {sequence} cannot be reversed: {cause}", sequence=sequence)


class NotAdjustable(FailedPrecondition):
    """Only a final cost can be adjusted, in its currency and to no less than nothing."""

    def __init__(self, sequence: int, cause: str) -> None:
        super().__init__(f"entry {sequence} cannot be adjusted: {cause}", sequence=sequence)


class NotSettleable(FailedPrecondition):
    """Only a provisional or estimated cost can be settled."""

    def __init__(self, key: str, cause: str) -> None:
        super().__init__(f"the cost of {key} cannot be settled: {cause}", key=key)


class PeriodClosed(FailedPrecondition):
    """The time is in a closed period."""

    def __init__(self, closed_before: str) -> None:
        super().__init__(
            f"the books before {closed_before} are closed, and a retry of what was posted in them "
            "is not known any more; what was not posted yet goes to the open period without "
            "occur_time",
            closed_before=closed_before,
        )


class PeriodNotClosable(FailedPrecondition):
    """Only what has passed can be closed, and what is closed stays closed."""


class CurrencyMismatch(FailedPrecondition):
    """A budget limits another currency, and there is no exchange rate."""

    def __init__(self, budget_id: str, limited: str, priced: str) -> None:
        super().__init__(
            f"budget {budget_id} limits {limited} but the call costs {priced}; "
            f"limit it in {priced} or price the SKU in {limited}",
            budget_id=budget_id,
        )


class UnpricedCurrency(InvalidArgument):
    """A budget in a currency without prices: it would reject every call."""

    def __init__(self, currency_code: str, priced: Sequence[str]) -> None:
        known = ", ".join(priced)
        super().__init__(
            f"no price is in {currency_code}, so the budget would reject every call; "
            f"limit it in {known}",
            currency_code=currency_code,
        )


class PriceOverlap(FailedPrecondition):
    """Two versions of one price would hold at the same time."""

    def __init__(self, sku: str, price_id: str) -> None:
        super().__init__(
            f"the price {price_id} of {sku} already holds in that time; start the new one where "
            "it ends, or correct it by its id",
            sku=sku,
        )


class PriceNotFound(NotFound):
    """No version of the SKU has the id, as the price book is known now."""

    def __init__(self, price_id: str, sku: str) -> None:
        super().__init__(f"{sku} has no price {price_id} that could be corrected", sku=sku)


class NoSuchPrice(NotFound):
    """The price book knows no such version now, for this tenant."""

    def __init__(self, price_id: str) -> None:
        super().__init__(
            f"there is no price {price_id[:100]}; `podium prices list` has those that are known"
        )


class PriceUsed(FailedPrecondition):
    """Entries of the journal name the version."""

    def __init__(self, price_id: str, sku: str) -> None:
        super().__init__(
            f"the price {price_id} of {sku} was used, and what was charged is computed again by it:"
            " it stays. Import another price, which ends it, or correct it by corrects_price_id",
            sku=sku,
        )


class BudgetNotFound(NotFound):
    """No such budget, for this tenant."""

    def __init__(self, budget_id: str) -> None:
        super().__init__(f"there is no open budget {budget_id}", budget_id=budget_id)


class BudgetConflict(AlreadyExists):
    """The id is taken by a budget with other content."""

    def __init__(self, budget_id: str) -> None:
        super().__init__(
            f"budget {budget_id} exists with other content; update it, or create one of another id",
            budget_id=budget_id,
        )


class BudgetEnded(FailedPrecondition):
    """A budget that has ended cannot change, nor be created again."""

    def __init__(self, budget_id: str, how: str) -> None:
        super().__init__(
            f"budget {budget_id} is {how}; create one of another id", budget_id=budget_id
        )


class BudgetChanged(Aborted):
    """Another change of the budget came first; nothing was changed."""

    def __init__(self, budget_id: str, version: int, asked: int) -> None:
        super().__init__(
            f"budget {budget_id} has version {version}, not {asked}; read it again",
            budget_id=budget_id,
        )


class JournalRejected(DomainError):
    """The database rejected the rows of a group: a fault of the ledger, nothing was written."""

    def __init__(self) -> None:
        super().__init__("the ledger could not store this; nothing was written")

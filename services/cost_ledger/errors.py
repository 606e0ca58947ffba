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
    pass


class AuditBusy(ResourceExhausted):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            "other audits of this tenant, or of others, are under way; send the same request again "
            "when they have ended",
            retry_after_s=retry_after_s,
        )


class InvalidPrice(InvalidArgument):
    pass


class ForeignPrice(PermissionDenied):
    def __init__(self, sku: str, tenant: str) -> None:
        super().__init__(
            f"the price of {sku[:200]!r} is the operator's: {tenant} prices SKUs that start with "
            f"{OWN!r}, of tools it brings along; ask a platform administrator for any other",
            sku=sku[:200],
        )


class InvalidBudget(InvalidArgument):
    pass


class InvalidReport(InvalidArgument):
    pass


class InvalidMonth(InvalidArgument):
    def __init__(self, text: str) -> None:
        super().__init__(f"month is {text[:40]!r}; write one of 1000-01 to 9998-12, like 2026-10")


class InvalidInvoice(InvalidArgument):
    pass


class InvalidSimulation(InvalidArgument):
    pass


class EntryUnknown(NotFound):
    def __init__(self, tenant: str, entry: str) -> None:
        super().__init__(
            f"the journal of {tenant} has no entry {entry[:200]!r}; "
            "give its sequence or the key of its call"
        )


class InvoiceNotFound(NotFound):
    def __init__(self, invoice_id: str) -> None:
        super().__init__(
            f"there is no invoice {invoice_id}; add its lines first", invoice=invoice_id
        )


class InvoiceConflict(AlreadyExists):
    def __init__(self, invoice_id: str, what: str) -> None:
        super().__init__(
            f"invoice {invoice_id} has another {what} already; use a new id for another file",
            invoice=invoice_id,
        )


class NothingAnchored(NotFound):
    def __init__(self, sequence: int) -> None:
        super().__init__(
            f"no signed root covers entry {sequence} yet; roots are signed after the day ends",
            sequence=sequence,
        )


class KeyReused(AlreadyExists):
    def __init__(self, operation: str, key: str) -> None:
        super().__init__(
            f"{operation} {key} was already answered with other content; use a new key", key=key
        )


class HoldNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"no money is held under the key {key}; reserve it first", key=key)


class CallNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"no call has the key {key}; `podium audit entries --unpriced` lists unknown costs",
            key=key,
        )


class HoldClosed(FailedPrecondition):
    def __init__(self, key: str, state: str, wanted: str) -> None:
        super().__init__(f"the hold {key} is {state}; it cannot be {wanted}", key=key)


class EntryNotFound(NotFound):
    def __init__(self, sequence: int) -> None:
        super().__init__(f"the journal has no entry {sequence}", sequence=sequence)


class NotAdjustable(FailedPrecondition):
    def __init__(self, sequence: int, cause: str) -> None:
        super().__init__(f"entry {sequence} cannot be adjusted: {cause}", sequence=sequence)


class NotSettleable(FailedPrecondition):
    def __init__(self, key: str, cause: str) -> None:
        super().__init__(f"the cost of {key} cannot be settled: {cause}", key=key)


class PeriodClosed(FailedPrecondition):
    def __init__(self, closed_before: str) -> None:
        super().__init__(
            f"the books before {closed_before} are closed, and a retry of what was posted in them "
            "is not known any more; what was not posted yet goes to the open period without "
            "occur_time",
            closed_before=closed_before,
        )


class PeriodNotClosable(FailedPrecondition):
    pass


class CurrencyMismatch(FailedPrecondition):
    def __init__(self, budget_id: str, limited: str, priced: str) -> None:
        super().__init__(
            f"budget {budget_id} limits {limited} but the call costs {priced}; "
            f"limit it in {priced} or price the SKU in {limited}",
            budget_id=budget_id,
        )


class UnpricedCurrency(InvalidArgument):
    def __init__(self, currency_code: str, priced: Sequence[str]) -> None:
        known = ", ".join(priced)
        super().__init__(
            f"no price is in {currency_code}, so the budget would reject every call; "
            f"limit it in {known}",
            currency_code=currency_code,
        )


class PriceOverlap(FailedPrecondition):
    def __init__(self, sku: str, price_id: str) -> None:
        super().__init__(
            f"the price {price_id} of {sku} already holds in that time; start the new one where "
            "it ends, or correct it by its id",
            sku=sku,
        )


class PriceNotFound(NotFound):
    def __init__(self, price_id: str, sku: str) -> None:
        super().__init__(f"{sku} has no price {price_id} that could be corrected", sku=sku)


class NoSuchPrice(NotFound):
    def __init__(self, price_id: str) -> None:
        super().__init__(
            f"there is no price {price_id[:100]}; `podium prices list` has those that are known"
        )


class PriceUsed(FailedPrecondition):
    def __init__(self, price_id: str, sku: str) -> None:
        super().__init__(
            f"the price {price_id} of {sku} was used, and what was charged is computed again by it:"
            " it stays. Import another price, which ends it, or correct it by corrects_price_id",
            sku=sku,
        )


class BudgetNotFound(NotFound):
    def __init__(self, budget_id: str) -> None:
        super().__init__(f"there is no open budget {budget_id}", budget_id=budget_id)


class BudgetConflict(AlreadyExists):
    def __init__(self, budget_id: str) -> None:
        super().__init__(
            f"budget {budget_id} exists with other content; update it, or create one of another id",
            budget_id=budget_id,
        )


class RaiseReused(AlreadyExists):
    def __init__(self, budget_id: str, raise_id: str) -> None:
        super().__init__(
            f"raise {raise_id} of budget {budget_id} was made with other content; use a new "
            "raise_id",
            budget_id=budget_id,
        )


class BudgetEnded(FailedPrecondition):
    def __init__(self, budget_id: str, how: str) -> None:
        super().__init__(
            f"budget {budget_id} is {how}; create one of another id", budget_id=budget_id
        )


class BudgetChanged(Aborted):
    def __init__(self, budget_id: str, version: int, asked: int) -> None:
        super().__init__(
            f"budget {budget_id} has version {version}, not {asked}; read it again",
            budget_id=budget_id,
        )


class JournalRejected(DomainError):
    def __init__(self) -> None:
        super().__init__("the ledger could not store this; nothing was written")

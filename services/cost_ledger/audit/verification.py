"""Verifies a tenant's ledger in steps, each short enough for one call.

First the entries of the range, in order: hashes (I9) and amounts (I8) are recomputed. Then
one invariant a step over the whole ledger, then the signed roots, one a step. Every step
answers the first wrong row of each rule it looked at.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cost_ledger.audit.models import Anchor, AnchoredHead
from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import INVARIANTS, Finding, InvariantStore
from cost_ledger.errors import InvalidReport
from cost_ledger.exports.models import charge_of, is_priced_by_usage
from cost_ledger.models import Entry
from cost_ledger.posting.chain import GENESIS, link
from cost_ledger.prices.models import PriceHistory
from cost_ledger.prices.service import PriceBook
from podium_kit.anchors import head_leaf, leaf_hash, load_public_key, root_from_path, tree_root
from podium_kit.money import Money

CHAIN = ("I9 chain", "every entry's hash covers it and the hash before it")
AMOUNTS = ("I8", "every amount is its quantities times the prices of its version")
ROOTS = ("I9 roots", "every signed root covers the journal as it is")
# A rule's short name and what it says.
Rule = tuple[str, str]
Histories = Mapping[tuple[str, str], PriceHistory]


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a verification: the last entry, then invariants done, then the last root."""

    sequence: int
    rules: int = 0
    day: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """Entries to verify; 0 as the last means the newest."""

    first: int
    last: int
    entries_per_step: int

    def __post_init__(self) -> None:
        if self.first < 1 or (self.last and self.last < self.first):
            raise InvalidReport(
                f"entries {self.first} to {self.last} are no range; "
                "count from 1, and end where it begins or later"
            )


@dataclass(frozen=True, slots=True)
class VerificationStep:
    """The findings of a step; no next position after the last one."""

    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...]
    checked: int
    total: int
    next: Position | None


class Verification:
    def __init__(
        self,
        journal: AuditStore,
        invariants: InvariantStore,
        anchors: AnchorStore,
        prices: PriceBook,
    ) -> None:
        self._journal = journal
        self._invariants = invariants
        self._anchors = anchors
        self._prices = prices

    async def step(self, tenant: str, asked: Range, at: Position) -> VerificationStep:
        head = await self._journal.head(tenant)
        if asked.first > max(head, 1):
            raise InvalidReport(f"the journal ends with entry {head}; begin there or before")
        last = min(asked.last or head, head)
        done = replace(asked, last=last), at
        if at.sequence < last:
            return await self._verify_entries(tenant, *done)
        if at.rules < len(INVARIANTS):
            return await self._verify_rule(tenant, *done)
        return await self._verify_roots(tenant, *done)

    async def _verify_entries(self, tenant: str, asked: Range, at: Position) -> VerificationStep:
        until = min(at.sequence + asked.entries_per_step, asked.last)
        before = await self._journal.entries(tenant, at.sequence, at.sequence)
        entries = await self._journal.entries(tenant, at.sequence + 1, until)
        keys = {(tenant, entry.call.sku) for entry in entries if entry.price_version_id}
        histories = await self._prices.histories(keys)
        previous = before[0] if before else None
        # In a thread: a step takes seconds, in which others post.
        found = await asyncio.to_thread(
            lambda: [
                *broken_chain(previous, at.sequence, entries, until),
                *wrong_amounts(entries, histories),
            ]
        )
        return _step(found, [CHAIN, AMOUNTS], asked, replace(at, sequence=until))

    async def _verify_rule(self, tenant: str, asked: Range, at: Position) -> VerificationStep:
        invariant = INVARIANTS[at.rules]
        found = await self._invariants.check(tenant, invariant)
        rule = invariant.rule, invariant.text
        return _step([found] if found else [], [rule], asked, replace(at, rules=at.rules + 1))

    async def _verify_roots(self, tenant: str, asked: Range, at: Position) -> VerificationStep:
        covered = await self._anchors.after(tenant, at.day)
        if covered is None:
            return _step([], [ROOTS], asked, None)
        anchor, anchored = covered
        head = anchored.head
        hashes = await self._anchors.hashes(tenant, head.first_sequence, head.last_sequence)
        found = wrong_root(anchor, anchored, hashes)
        return _step([found] if found else [], [], asked, replace(at, day=anchor.root.day))


def broken_chain(
    before: Entry | None, after_sequence: int, entries: Iterable[Entry], until: int
) -> list[Finding]:
    previous, expected = before.hash if before else GENESIS, after_sequence + 1
    for entry in entries:
        if entry.sequence != expected:
            break
        if entry.hash != link(previous, entry):
            problem = "its hash is not that of its content and the entry before it"
            return [Finding(*CHAIN, f"entry {entry.sequence}", problem)]
        previous, expected = entry.hash, expected + 1
    missing = Finding(*CHAIN, f"entry {expected}", "it is missing")
    return [missing] if expected <= until else []


def wrong_amounts(entries: Iterable[Entry], histories: Histories) -> list[Finding]:
    for entry in entries:
        if entry.price_version_id and is_priced_by_usage(entry):
            problem = _amount_problem(entry, histories)
            if problem:
                return [Finding(*AMOUNTS, f"entry {entry.sequence}", problem)]
    return []


def wrong_root(anchor: Anchor, anchored: AnchoredHead, hashes: list[bytes]) -> Finding | None:
    head, root = anchored.head, anchor.root
    leaf = head_leaf(head)
    count = root.tenant_count
    if not root.is_signed(anchor.signature, load_public_key(anchor.public_key.encode())):
        problem = "its signature is not of its root"
    elif root_from_path(leaf, anchored.tenant_index, count, anchored.tenant_path) != root.root:
        problem = "its root does not cover the tenant's end of that day"
    elif tree_root([leaf_hash(each) for each in hashes]) != head.entries_root:
        problem = f"entries {head.first_sequence} to {head.last_sequence} were changed after it"
    else:
        return None
    return Finding(*ROOTS, f"root of {root.day}", problem)


def _amount_problem(entry: Entry, histories: Histories) -> str:
    call = entry.call
    charge = charge_of(entry, histories.get((call.tenant, call.sku)))
    if charge.price is None:
        return f"price version {entry.price_version_id} of {call.sku} is unknown"
    recomputed = charge.recomputed_amount or Money.zero(charge.price.currency_code)
    return "" if recomputed == entry.cost else f"it is {entry.cost}, recomputed {recomputed}"


def _step(
    found: list[Finding], rules: list[Rule], asked: Range, position: Position | None
) -> VerificationStep:
    total = max(asked.last - asked.first + 1, 0)
    checked = min(position.sequence - asked.first + 1, total) if position else total
    return VerificationStep(tuple(found), tuple(rules), checked, total, position)

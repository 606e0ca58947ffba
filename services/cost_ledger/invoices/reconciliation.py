"""Compares an invoice with the ledger: every line and every entry is classified once.

Lines and entries of one provider request belong together; without a request id, those of one SKU
on one UTC day do. Within such a group equal amounts are paired first, then those that are equal
but for the invoice's rounding, then the rest in the order of time. Request ids are no identity: a
provider may give the same id to many calls, and then the pairing inside the group separates them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from itertools import chain

from cost_ledger.exports.models import Month
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match, MatchState
from cost_ledger.models import Entry

Pair = tuple[InvoiceLine, Entry]
Same = Callable[[InvoiceLine, Entry], bool]


@dataclass(slots=True)
class _Group:
    lines: list[InvoiceLine]
    entries: list[Entry]


def reconcile(
    invoice: Invoice, lines: Sequence[InvoiceLine], entries: Sequence[Entry]
) -> list[Match]:
    """Classifies every line, and every entry of the invoice's month.

    `entries` are the provider's uncorrected costs, also those of the months beside it: a line may
    be about one of them, but one without a line is not missing from this invoice.
    """
    matches: list[Match] = []
    by_request, rest = _by_request(lines, entries)
    by_day = _by_sku_and_day(rest)
    for group in chain(by_request, by_day):
        matches += _matches_of(group, invoice.month)
    return sorted(matches, key=_place)


def _by_request(
    lines: Sequence[InvoiceLine], entries: Sequence[Entry]
) -> tuple[list[_Group], _Group]:
    groups: defaultdict[str, _Group] = defaultdict(lambda: _Group([], []))
    for line in lines:
        groups[line.provider_request_id].lines.append(line)
    for entry in entries:
        groups[_request_id(entry)].entries.append(entry)
    rest = groups.pop("", _Group([], []))
    shared = [group for group in groups.values() if group.lines and group.entries]
    for group in groups.values():
        if not group.entries:
            # The provider's id is on the invoice only: the ledger may know the call without it.
            rest.lines += group.lines
        elif not group.lines:
            rest.entries += group.entries
    return shared, rest


def _by_sku_and_day(rest: _Group) -> list[_Group]:
    groups: defaultdict[tuple[str, str], _Group] = defaultdict(lambda: _Group([], []))
    for line in rest.lines:
        groups[line.sku, line.day].lines.append(line)
    for entry in rest.entries:
        groups[entry.call.sku, _day(entry)].entries.append(entry)
    return [part for group in groups.values() for part in _comparable(group)]


def _comparable(group: _Group) -> list[_Group]:
    """Two different requests are two calls; one without an id may be any of them."""
    lines = [line for line in group.lines if line.provider_request_id]
    entries = [entry for entry in group.entries if _request_id(entry)]
    if not lines or not entries:
        return [group]
    free_lines = [line for line in group.lines if not line.provider_request_id]
    free_entries = [entry for entry in group.entries if not _request_id(entry)]
    return [_Group(lines, free_entries), _Group(free_lines, entries)]


def _matches_of(group: _Group, month: Month) -> list[Match]:
    pairs = _pairs(group)
    taken = {line.position for line, _ in pairs}, {entry.sequence for _, entry in pairs}
    lines = [line for line in group.lines if line.position not in taken[0]]
    entries = [entry for entry in group.entries if entry.sequence not in taken[1]]
    matches = [Match(_state_of(line, entry, month), line, entry) for line, entry in pairs]
    billed = {line.provider_request_id for line, _ in pairs} - {""}
    posted = {_request_id(entry) for _, entry in pairs} - {""}
    matches += [Match(_lonely_line(line, posted), line) for line in lines]
    missing = (entry for entry in entries if Month.of(entry.occur_time) == month)
    return matches + [Match(_lonely_entry(entry, billed), entry=entry) for entry in missing]


def _pairs(group: _Group) -> list[Pair]:
    lines, entries = sorted(group.lines, key=_line_amount), sorted(group.entries, key=_entry_amount)
    pairs = _take(lines, entries, _equal) + _take(lines, entries, _equal_but_rounded)
    # What is left is one call with two amounts only where its request is known.
    in_time = zip(sorted(lines, key=_line_time), sorted(entries, key=_entry_time), strict=False)
    return pairs + [(line, entry) for line, entry in in_time if _one_request(line, entry)]


def _take(lines: list[InvoiceLine], entries: list[Entry], same: Same) -> list[Pair]:
    """Pairs up and removes what is the same; both sides are sorted by amount."""
    pairs: list[Pair] = []
    at, of = 0, 0
    while at < len(lines) and of < len(entries):
        line, entry = lines[at], entries[of]
        if same(line, entry):
            pairs.append((line, entry))
            at, of = at + 1, of + 1
        elif _line_amount(line)[:2] <= _entry_amount(entry)[:2]:
            at += 1
        else:
            of += 1
    paired_lines = {line.position for line, _ in pairs}
    paired_entries = {entry.sequence for _, entry in pairs}
    lines[:] = [line for line in lines if line.position not in paired_lines]
    entries[:] = [entry for entry in entries if entry.sequence not in paired_entries]
    return pairs


def _state_of(line: InvoiceLine, entry: Entry, month: Month) -> MatchState:
    late = Month.of(entry.occur_time) != month
    if _equal(line, entry):
        return MatchState.LATE if late else MatchState.MATCHED
    if _equal_but_rounded(line, entry):
        return MatchState.LATE_ROUNDED if late else MatchState.ROUNDED
    return MatchState.LATE_DIFFERENT if late else MatchState.DIFFERENT


def _lonely_line(line: InvoiceLine, posted: set[str]) -> MatchState:
    twice = line.provider_request_id in posted
    return MatchState.DOUBLED_IN_INVOICE if twice else MatchState.MISSING_IN_LEDGER


def _lonely_entry(entry: Entry, billed: set[str]) -> MatchState:
    twice = _request_id(entry) in billed
    return MatchState.DOUBLED_IN_LEDGER if twice else MatchState.MISSING_IN_INVOICE


def _equal(line: InvoiceLine, entry: Entry) -> bool:
    return line.amount == entry.cost


def _equal_but_rounded(line: InvoiceLine, entry: Entry) -> bool:
    posted = entry.cost
    if posted is None or posted.currency_code != line.amount.currency_code:
        return False
    return (line.amount - posted).amount.copy_abs() < line.last_place


def _one_request(line: InvoiceLine, entry: Entry) -> bool:
    return bool(line.provider_request_id) and line.provider_request_id == _request_id(entry)


def _request_id(entry: Entry) -> str:
    return entry.usage.provider_request_id if entry.usage else ""


def _day(entry: Entry) -> str:
    return entry.occur_time.astimezone(UTC).date().isoformat()


def _line_amount(line: InvoiceLine) -> tuple[str, Decimal, float, int]:
    return line.amount.currency_code, line.amount.amount, *_line_time(line)


def _entry_amount(entry: Entry) -> tuple[str, Decimal, float, int]:
    """An unknown amount is equal to none, and sorts before all."""
    amount = entry.cost
    known = (amount.currency_code, amount.amount) if amount else ("", Decimal(0))
    return *known, *_entry_time(entry)


def _line_time(line: InvoiceLine) -> tuple[float, int]:
    return line.occur_time.timestamp(), line.position


def _entry_time(entry: Entry) -> tuple[float, int]:
    return entry.occur_time.timestamp(), entry.sequence


def _place(match: Match) -> tuple[bool, int]:
    """Lines in the order of the invoice, then what only the ledger has."""
    line, entry = match.line, match.entry
    return line is None, line.position if line else entry.sequence if entry else 0

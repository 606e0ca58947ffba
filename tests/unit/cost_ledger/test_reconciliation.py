from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

from hypothesis import given
from hypothesis import strategies as st

from cost_ledger.exports.models import Month
from cost_ledger.invoices.models import Invoice, InvoiceLine, MatchState
from cost_ledger.invoices.reconciliation import reconcile
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from podium_kit.metering import Usage, UsageSource
from podium_kit.money import Money

START = datetime(2026, 10, 1, tzinfo=UTC)
INVOICE = Invoice("october", "openai", Month(2026, 10))
FAULTS = st.sampled_from([*MatchState])
LATE = {MatchState.LATE, MatchState.LATE_ROUNDED, MatchState.LATE_DIFFERENT}
ROUNDED = {MatchState.ROUNDED, MatchState.LATE_ROUNDED}
DIFFERENT = {MatchState.DIFFERENT, MatchState.LATE_DIFFERENT}


def make_entry(number: int, request_id: str, amount: Decimal) -> Entry:
    usage = Usage((), UsageSource.PROVIDER, request_id)
    occurred = START + timedelta(minutes=number)
    return Entry(
        sequence=number,
        kind=EntryKind.RECORD,
        call=Call("acme", f"key-{number}", Subject(), "openai/gpt-5"),
        postings=Postings(unit="USD", spend=amount, payable=-amount),
        price_version_id="v",
        occur_time=occurred,
        create_time=occurred,
        usage=usage,
    )


def line_of(entry: Entry, position: int, amount: Decimal | None = None) -> InvoiceLine:
    assert entry.usage and entry.cost
    return InvoiceLine(
        position,
        entry.usage.provider_request_id,
        entry.call.sku,
        entry.occur_time,
        Money(entry.cost.amount if amount is None else amount, "USD"),
    )


def faulty_invoice(faults: list[MatchState]) -> tuple[list[InvoiceLine], list[Entry]]:
    """One call per fault, all of different amounts with six decimals that are not round."""
    lines: list[InvoiceLine] = []
    entries: list[Entry] = []
    for number, fault in enumerate(faults, start=1):
        amount = Decimal(number) + Decimal("0.000123")
        entry = make_entry(10 * number, f"request-{number}", amount)
        if fault in LATE:
            entry = replace(entry, occur_time=START - timedelta(days=1, minutes=number))
        position = len(lines) + 1
        if fault in ROUNDED:
            rounded = amount.quantize(Decimal("0.0001"), ROUND_HALF_UP)
            lines.append(line_of(entry, position, rounded))
        elif fault in DIFFERENT:
            lines.append(line_of(entry, position, amount * 2))
        elif fault is not MatchState.MISSING_IN_INVOICE:
            lines.append(line_of(entry, position))
        if fault is MatchState.DOUBLED_IN_INVOICE:
            lines.append(line_of(entry, position + 1))
        if fault is not MatchState.MISSING_IN_LEDGER:
            entries.append(entry)
        if fault is MatchState.DOUBLED_IN_LEDGER:
            entries.append(replace(entry, sequence=10 * number + 1))
    return lines, entries


@given(st.lists(FAULTS, max_size=30))
def test_every_injected_fault_is_found_and_nothing_else(faults: list[MatchState]) -> None:
    lines, entries = faulty_invoice(faults)
    expected = Counter(faults)
    # A call that is there twice is matched once and doubled once.
    doubled = expected[MatchState.DOUBLED_IN_INVOICE] + expected[MatchState.DOUBLED_IN_LEDGER]
    expected[MatchState.MATCHED] += doubled
    matches = reconcile(INVOICE, lines, entries)
    assert Counter(match.state for match in matches) == +expected
    assert Counter(m.line.position for m in matches if m.line) == Counter(
        line.position for line in lines
    )
    assert max(Counter(m.entry.sequence for m in matches if m.entry).values(), default=1) == 1


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20))
def test_calls_that_all_have_one_request_id_are_kept_apart(amounts: list[int]) -> None:
    for request_id in ("chatcmpl-1", ""):
        entries = [
            make_entry(number, request_id, Decimal(amount))
            for number, amount in enumerate(amounts, start=1)
        ]
        lines = [line_of(entry, position) for position, entry in enumerate(entries, start=1)]
        states = {match.state for match in reconcile(INVOICE, lines, entries)}
        assert states == {MatchState.MATCHED}


def test_an_invoice_of_the_next_month_shows_the_call_as_late_and_not_as_missing() -> None:
    entry = make_entry(1, "r", Decimal(1))
    november = Invoice("november", "openai", Month(2026, 11))
    assert [m.state for m in reconcile(INVOICE, [], [entry])] == [MatchState.MISSING_IN_INVOICE]
    assert [m.state for m in reconcile(november, [line_of(entry, 1)], [entry])] == [MatchState.LATE]
    assert reconcile(november, [], [entry]) == []


def test_the_written_decimals_decide_how_far_a_line_may_be_rounded() -> None:
    entry = make_entry(1, "r", Decimal("0.1049"))
    for written, state in (
        ("0.10", MatchState.ROUNDED),
        ("0.100", MatchState.DIFFERENT),
        ("0.1049", MatchState.MATCHED),
    ):
        matches = reconcile(INVOICE, [line_of(entry, 1, Decimal(written))], [entry])
        assert [match.state for match in matches] == [state]


def test_a_call_is_of_its_utc_day_in_whatever_zone_the_database_writes_the_time() -> None:
    entry = make_entry(1, "", Decimal(1))
    east = timezone(timedelta(hours=9))
    for hour in (1, 23):
        utc = START.replace(hour=hour)
        zoned = replace(entry, occur_time=utc.astimezone(east))
        (match,) = reconcile(INVOICE, [replace(line_of(entry, 1), occur_time=utc)], [zoned])
        assert match.state is MatchState.MATCHED


class CountedId(str):
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return str.__eq__(self, other)


def test_a_lonely_line_is_not_compared_with_every_pair() -> None:
    calls = 200
    entries = [make_entry(number, "", Decimal(number)) for number in range(1, calls + 1)]
    found = [line_of(entry, entry.sequence) for entry in entries]
    lonely = [
        replace(line, position=line.position + calls, amount=Money(Decimal(10_000), "USD"))
        for line in found
    ]
    lines = [
        replace(line, provider_request_id=CountedId(line.position)) for line in (*found, *lonely)
    ]
    CountedId.compared = 0
    states = Counter(match.state for match in reconcile(INVOICE, lines, entries))
    assert states == {MatchState.MATCHED: calls, MatchState.MISSING_IN_LEDGER: calls}
    assert CountedId.compared < 10 * calls


def test_a_cost_is_compared_as_it_was_adjusted() -> None:
    entry = make_entry(1, "r", Decimal("0.45"))
    line = line_of(entry, 1, Decimal("0.50"))
    for change, state in (("0", MatchState.DIFFERENT), ("0.05", MatchState.MATCHED)):
        (match,) = reconcile(INVOICE, [line], [entry.adjusted_by(Decimal(change))])
        assert match.state is state
    assert match.difference == Money(Decimal(0), "USD")

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from cost_ledger.errors import InvalidInvoice
from cost_ledger.exports.models import Month
from cost_ledger.fingerprint import decimal_text
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match, MatchState
from cost_ledger.journal.convert import entry_to_proto
from podium.common.v1 import money_pb2
from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.money import Money
from podium_kit.rpc.pages import encode_page_token
from podium_kit.wire import money_from_proto, timestamp_from_proto, timestamp_to_proto

STATE_TO_WIRE = {
    state: audit_pb2.MatchState.Value(f"MATCH_STATE_{state.name}") for state in MatchState
}
STATE_FROM_WIRE = {number: state for state, number in STATE_TO_WIRE.items()}
Sums = defaultdict[MatchState, defaultdict[str, Decimal]]


def invoice_from_proto(message: audit_pb2.Invoice) -> Invoice:
    return Invoice(message.id, message.provider, Month.parse(message.month))


def lines_from_proto(message: pb.AddInvoiceLinesRequest) -> list[InvoiceLine]:
    return [
        _line_from_proto(line, position)
        for position, line in enumerate(message.lines, start=message.first_position)
    ]


def reconciled_to_proto(invoice: Invoice, matches: Sequence[Match]) -> pb.ReconcileInvoiceResponse:
    counts = Counter(match.state for match in matches)
    billed = _sums((match.state, match.line.amount) for match in matches if match.line)
    posted = _sums(
        (match.state, match.entry.cost) for match in matches if match.entry and match.entry.cost
    )
    return pb.ReconcileInvoiceResponse(
        invoice=audit_pb2.Invoice(
            id=invoice.id, provider=invoice.provider, month=str(invoice.month)
        ),
        summaries=[
            audit_pb2.MatchSummary(
                state=STATE_TO_WIRE[state],
                count=counts[state],
                billed=_money(billed[state]),
                posted=_money(posted[state]),
            )
            for state in MatchState
            if counts[state]
        ],
    )


def states_from_proto(message: pb.ListInvoiceMatchesRequest) -> list[MatchState]:
    if unknown := [number for number in message.states if number not in STATE_FROM_WIRE]:
        raise InvalidInvoice(f"states contains {unknown[0]}, which is no state of a match")
    return [STATE_FROM_WIRE[number] for number in message.states]


def matches_to_proto(
    matches: Sequence[tuple[int, Match]], limit: int
) -> pb.ListInvoiceMatchesResponse:
    more = len(matches) == limit
    return pb.ListInvoiceMatchesResponse(
        matches=[_match_to_proto(match) for _, match in matches],
        next_page_token=encode_page_token({"after": str(matches[-1][0])}) if more else "",
    )


def _line_from_proto(message: audit_pb2.InvoiceLine, position: int) -> InvoiceLine:
    if not message.HasField("occur_time"):
        raise InvalidInvoice(f"line {position} has no time; say when the call happened")
    return InvoiceLine(
        position=position,
        provider_request_id=message.provider_request_id,
        sku=message.sku,
        occur_time=timestamp_from_proto(message.occur_time),
        amount=money_from_proto(message.amount),
    )


def _match_to_proto(match: Match) -> audit_pb2.InvoiceMatch:
    line, difference = match.line, match.difference
    return audit_pb2.InvoiceMatch(
        state=STATE_TO_WIRE[match.state],
        position=line.position if line else 0,
        line=_line_to_proto(line) if line else None,
        entry=entry_to_proto(match.entry) if match.entry else None,
        difference=_written(difference) if difference else None,
    )


def _line_to_proto(line: InvoiceLine) -> audit_pb2.InvoiceLine:
    return audit_pb2.InvoiceLine(
        provider_request_id=line.provider_request_id,
        sku=line.sku,
        occur_time=timestamp_to_proto(line.occur_time),
        amount=money_pb2.Money(
            # With the decimals it was written with: they say how the provider rounds.
            currency_code=line.amount.currency_code,
            amount=f"{line.amount.amount:f}",
        ),
    )


def _sums(amounts: Iterable[tuple[MatchState, Money]]) -> Sums:
    sums: Sums = defaultdict(lambda: defaultdict(Decimal))
    for state, amount in amounts:
        sums[state][amount.currency_code] += amount.amount
    return sums


def _money(sums: dict[str, Decimal]) -> list[money_pb2.Money]:
    return [_written(Money(amount, code)) for code, amount in sorted(sums.items())]


def _written(money: Money) -> money_pb2.Money:
    return money_pb2.Money(currency_code=money.currency_code, amount=decimal_text(money.amount))

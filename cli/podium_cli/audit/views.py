from collections.abc import Iterable, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import audit_pb2, audit_service_pb2, hold_pb2
from podium_cli.formats import format_money, format_time
from podium_cli.listing import Listing, listing
from podium_cli.prices.lists import format_price
from podium_kit.money import Money
from podium_kit.text import one_line
from podium_kit.wire import enum_word, money_from_proto, optional_money_from_proto


def exact_money(message: money_pb2.Money) -> str:
    """ "$0.0000125", or "unknown" when it is unset."""
    return format_money(optional_money_from_proto(message))


def sums(messages: Iterable[money_pb2.Money]) -> str:
    """One amount per currency; currencies are never added. "-" for none."""
    return " + ".join(format_money(money_from_proto(each)) for each in messages) or "-"


def added(messages: Iterable[money_pb2.Money]) -> dict[str, Money]:
    totals: dict[str, Money] = {}
    for message in messages:
        money = money_from_proto(message)
        code = money.currency_code
        totals[code] = totals[code] + money if code in totals else money
    return totals


HASH_CHARACTERS = 16


def explanation_view(explanation: audit_pb2.Explanation) -> Group:
    """One block per question: what, how much, why, what else, and can it be trusted."""
    entry = explanation.charge.entry
    blocks = [
        Text.assemble((f"entry {entry.sequence}", "bold"), f"  {kind_word(entry)} of {entry.key}"),
        _facts(explanation),
        *_titled("amount", _lines(explanation.charge)),
        *_titled("budgets", _budgets(explanation)),
        *_titled("postings", _postings(explanation)),
        *_titled("related entries", _related(explanation)),
        _chain(explanation.chain),
    ]
    return Group(*blocks)


def kind_word(entry: hold_pb2.Entry) -> str:
    return enum_word(hold_pb2.EntryKind.Name(entry.kind), "ENTRY_KIND_")


def dimension_word(dimension: usage_pb2.UsageDimension.ValueType) -> str:
    return enum_word(usage_pb2.UsageDimension.Name(dimension), "USAGE_DIMENSION_")


def entries_view(entries: Iterable[hold_pb2.Entry]) -> Listing:
    rows = [
        (
            str(each.sequence),
            format_time(each.occur_time),
            kind_word(each),
            each.key,
            each.sku,
            exact_money(each.amount) if each.postings else "-",
        )
        for each in entries
    ]
    return listing(("entry#", "time", "kind", "key", "SKU", "amount#"), rows, ("time", "SKU"))


def _facts(explanation: audit_pb2.Explanation) -> Table:
    entry = explanation.charge.entry
    subject, usage = entry.subject, entry.usage
    place = [("episode", subject.episode_id), ("turn", subject.turn or "")]
    who = [("tool", subject.tool), ("model", subject.model), ("team", subject.team)]
    who += [("user", subject.user), ("agent", subject.agent)]
    facts = {
        "charged to": ", ".join(f"{name} {value}" for name, value in [*place, *who] if value),
        "SKU": entry.sku,
        "happened": format_time(entry.occur_time),
        "posted": format_time(entry.create_time),
        "counted by": enum_word(usage_pb2.UsageSource.Name(usage.source), "USAGE_SOURCE_")
        if usage.quantities
        else "",
        "provider's id": usage.provider_request_id,
        "policy": entry.policy_version,
        "price": _price(explanation),
        "hold": _hold(explanation),
        "why": entry.reason,
        "corrects": f"entry {entry.corrects_sequence}" if entry.corrects_sequence else "",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return table


def _price(explanation: audit_pb2.Explanation) -> str:
    if not explanation.HasField("price"):
        return "unknown"
    price = explanation.price
    source = f", from {price.spec.source}" if price.spec.source else ""
    return f"{format_price(price.spec)} (version {price.id}{source})"


def _hold(explanation: audit_pb2.Explanation) -> str:
    if not explanation.HasField("hold"):
        return ""
    hold = explanation.hold
    state = enum_word(hold_pb2.HoldState.Name(hold.state), "HOLD_STATE_")
    return f"{exact_money(hold.amount)}, {state}, made {format_time(hold.create_time)}"


def _lines(charge: audit_pb2.Charge) -> RenderableType | None:
    entry = charge.entry
    if not charge.lines:
        return Text(f"  {exact_money(entry.amount)}")
    columns = ("quantity#", "of", "unit price#", "per#", "priced as", "exact#", "rounded to 12#")
    rows: list[tuple[str | Text, ...]] = [_line(line) for line in charge.lines]
    rows.append(
        ("", "", "", "", "", Text("sum", style="bold"), Text(exact_money(entry.amount), "bold"))
    )
    return listing(columns, rows)


def _line(line: audit_pb2.ChargeLine) -> tuple[str, ...]:
    quantity = dimension_word(line.quantity.dimension)
    if not line.unit_price:
        return line.quantity.amount, quantity, "none", "", "", "", "0"
    priced = dimension_word(line.priced_as) + (f", {line.band} tokens" if line.band else "")
    amount = exact_money(line.amount)
    return (
        line.quantity.amount,
        quantity,
        line.unit_price,
        line.per,
        priced,
        line.exact_amount,
        amount,
    )


def _budgets(explanation: audit_pb2.Explanation) -> RenderableType | None:
    rows = [
        (
            each.budget_id,
            format_time(each.window_start),
            exact_money(each.hard_limit),
            exact_money(each.posted),
            exact_money(each.held),
        )
        for each in explanation.budgets
    ]
    columns = ("budget", "window since", "hard limit#", "posted now#", "held now#")
    return listing(columns, rows) if rows else None


def _postings(explanation: audit_pb2.Explanation) -> RenderableType | None:
    rows = [
        (each.account, each.amount, _unit(each.unit)) for each in explanation.charge.entry.postings
    ]
    return listing(("account", "amount#", "unit"), rows) if rows else None


def _unit(code: str) -> str:
    return "calls of unknown price" if code == "XXX" else code


def _related(explanation: audit_pb2.Explanation) -> RenderableType | None:
    rows = [
        (
            str(each.sequence),
            kind_word(each),
            exact_money(each.amount),
            format_time(each.create_time),
            f"entry {each.corrects_sequence}" if each.corrects_sequence else "",
        )
        for each in explanation.related
    ]
    return listing(("entry#", "kind", "amount#", "posted", "corrects"), rows) if rows else None


def _chain(chain: audit_pb2.ChainProof) -> Text:
    whole = chain.hash == chain.recomputed_hash
    verdict = ("matches its content", "green") if whole else ("DOES NOT MATCH ITS CONTENT", "red")
    anchored = (
        f", under the signed root of {chain.anchor_day}"
        if chain.anchor_day
        else ", not yet under a signed root"
    )
    hashes = f"\nhash {chain.hash.hex()[:HASH_CHARACTERS]}… "
    return Text.assemble((hashes, "bold"), verdict, anchored)


def _titled(title: str, block: RenderableType | None) -> Iterator[RenderableType]:
    if block is not None:
        yield Text(f"\n{title}", style="bold")
        yield block


PREFIX = "MATCH_STATE_"
# What needs no attention.
FINE = {audit_pb2.MATCH_STATE_MATCHED, audit_pb2.MATCH_STATE_ROUNDED}
SHOWN_MAX = 50
COLUMNS = (
    "line#",
    "state",
    "SKU",
    "request",
    "happened",
    "billed#",
    "entry#",
    "posted#",
    "difference#",
)


def state_word(state: audit_pb2.MatchState.ValueType) -> str:
    return enum_word(audit_pb2.MatchState.Name(state), PREFIX)


def reconciliation_view(
    reply: audit_service_pb2.ReconcileInvoiceResponse, matches: list[audit_pb2.InvoiceMatch]
) -> RenderableType:
    """Sums per state, then the pairings that are not fine."""
    summary = [
        (_coloured(each.state), str(each.count), sums(each.billed), sums(each.posted))
        for each in reply.summaries
    ]
    blocks: list[RenderableType] = [listing(("state", "lines#", "billed#", "posted#"), summary)]
    if matches:
        rows = [_row(match) for match in matches[:SHOWN_MAX]]
        blocks += [Text(), listing(COLUMNS, rows, ("SKU", "happened"))]
    if len(matches) > SHOWN_MAX:
        blocks.append(Text(f"and {len(matches) - SHOWN_MAX} more: see --json", "dim"))
    return Group(*blocks)


def _row(match: audit_pb2.InvoiceMatch) -> tuple[str | Text, ...]:
    line, entry = match.line, match.entry
    has_line, has_entry = match.HasField("line"), match.HasField("entry")
    request = line.provider_request_id or entry.usage.provider_request_id
    return (
        str(match.position) if has_line else "-",
        _coloured(match.state),
        line.sku or entry.sku,
        one_line(request, 24) or "-",
        format_time(line.occur_time if has_line else entry.occur_time),
        exact_money(line.amount) if has_line else "-",
        str(entry.sequence) if has_entry else "-",
        exact_money(entry.amount) if has_entry else "-",
        exact_money(match.difference) if match.HasField("difference") else "-",
    )


def _coloured(state: audit_pb2.MatchState.ValueType) -> Text:
    return Text(state_word(state), style="green" if state in FINE else "red")


def verification_view(
    rules: Mapping[str, str], broken: Mapping[str, audit_pb2.Finding]
) -> RenderableType:
    """Every rule in words and whether it holds; then, of the broken ones, the first wrong row."""
    holds, not_so = Text("holds", style="green"), Text("BROKEN", style="red")
    rows = [(rule, not_so if rule in broken else holds, words) for rule, words in rules.items()]
    blocks: list[RenderableType] = [listing(("rule", "", "says"), rows)]
    if broken:
        found = [(each.rule, each.row, each.problem) for each in broken.values()]
        blocks += [Text(), listing(("broken", "first wrong row", "problem"), found)]
    return Group(*blocks)

from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium_cli.audit.views import added
from podium_cli.formats import format_money
from podium_cli.listing import listing
from podium_kit.client.gateway import Gateway
from podium_kit.money import Money

COLUMNS = ("SKU", "model", "tool", "calls#", "posted#", "simulated#", "difference#", "unpriced#")


@dataclass
class Simulated:
    costs: dict[tuple[str, str, str], audit_pb2.SimulatedCost] = field(default_factory=dict)

    def add(self, costs: Iterable[audit_pb2.SimulatedCost]) -> None:
        for cost in costs:
            key = (cost.sku, cost.model, cost.tool)
            if key not in self.costs:
                self.costs[key] = cost
            else:
                _add(self.costs[key], cost)

    @property
    def rows(self) -> list[audit_pb2.SimulatedCost]:
        return [self.costs[key] for key in sorted(self.costs)]

    @property
    def unpriced(self) -> list[str]:
        return sorted({cost.sku or "-" for cost in self.rows if cost.unpriced_simulated_count})


async def simulated_costs(
    gateway: Gateway, request: audit_service_pb2.SimulatePricesRequest
) -> Simulated:
    """Adds up all pages of a simulation."""
    simulated, kind = Simulated(), audit_service_pb2.SimulatePricesResponse
    while True:
        page = await gateway.post("/v1/audit/simulate", request, kind)
        simulated.add(page.costs)
        if not page.next_page_token:
            return simulated
        request.page_token = page.next_page_token


def simulation_view(simulated: Simulated) -> RenderableType:
    rows = [_row(cost) for cost in simulated.rows]
    posted = added(each for cost in simulated.rows for each in cost.posted)
    others = added(each for cost in simulated.rows for each in cost.simulated)
    # What the other prices cannot price is in no difference: it would look like a saving.
    priced = [cost for cost in simulated.rows if _is_comparable(cost)]
    before = added(each for cost in priced for each in cost.posted)
    after = added(each for cost in priced for each in cost.simulated)
    total = ("sum", "", "", "", _sums(posted), _sums(others), _difference(before, after), "")
    rows.append(tuple(Text(cell, style="bold") for cell in total))
    blocks: list[RenderableType] = [listing(COLUMNS, rows, ("model", "tool"))]
    if simulated.unpriced:
        names = ", ".join(simulated.unpriced)
        blocks.append(Text(f"\nnot in the other prices, so in no simulated sum: {names}", "yellow"))
    return Group(*blocks)


def _row(cost: audit_pb2.SimulatedCost) -> tuple[str | Text, ...]:
    posted, others = added(cost.posted), added(cost.simulated)
    unpriced = f"{cost.unpriced_posted_count} → {cost.unpriced_simulated_count}"
    return (
        cost.sku or "-",
        cost.model or "-",
        cost.tool or "-",
        str(cost.call_count),
        _sums(posted),
        _sums(others),
        _difference(posted, others) if _is_comparable(cost) else "-",
        unpriced if cost.unpriced_posted_count or cost.unpriced_simulated_count else "",
    )


def _is_comparable(cost: audit_pb2.SimulatedCost) -> bool:
    return not (cost.unpriced_posted_count or cost.unpriced_simulated_count)


def _sums(amounts: dict[str, Money]) -> str:
    return " + ".join(format_money(amount) for amount in amounts.values()) or "-"


def _difference(posted: dict[str, Money], others: dict[str, Money]) -> str:
    """Per currency that both have; currencies are never compared with each other."""
    both = sorted(posted.keys() & others.keys())
    return " + ".join(_signed(others[code] - posted[code], posted[code]) for code in both) or "-"


def _signed(difference: Money, posted: Money) -> str:
    if not difference.amount:
        return "0"
    share = f" ({difference.amount / posted.amount:+.1%})" if posted.amount else ""
    sign = "+" if difference.amount > 0 else "-"
    return f"{sign}{format_money(Money(abs(difference.amount), difference.currency_code))}{share}"


def _add(total: audit_pb2.SimulatedCost, page: audit_pb2.SimulatedCost) -> None:
    total.call_count += page.call_count
    total.unpriced_posted_count += page.unpriced_posted_count
    total.unpriced_simulated_count += page.unpriced_simulated_count
    for name in ("posted", "simulated"):
        sums = added([*getattr(total, name), *getattr(page, name)])
        total.ClearField(name)
        for money in sums.values():
            getattr(total, name).add(
                amount=money.amount_string(), currency_code=money.currency_code
            )

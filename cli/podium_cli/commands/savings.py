from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.text import Text

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.audit.simulation import simulated_costs
from podium_cli.audit.views import added
from podium_cli.command import Session, command
from podium_cli.formats import format_money
from podium_cli.inputs import Since, parse_start, parse_time
from podium_cli.listing import Listing, listing
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.money import Money
from podium_kit.tool_kinds import models_of

SKUS_PER_REQUEST = 200
COMPARED_BY = usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT, usage_pb2.USAGE_DIMENSION_INPUT_FRESH
COLUMNS = ("tool", "model", "calls#", "cost#", "at that price#", "saved#")

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class PricedModel:
    """A model of a tool, and its price."""

    tool: str
    alias: str
    spec: prices_pb2.PriceSpec

    @property
    def name(self) -> str:
        return f"{self.tool}/{self.alias}"

    @property
    def rates(self) -> tuple[Decimal, ...]:
        """The highest prices of an output and of an input token, by which models are compared."""
        listed = self.spec.components
        return tuple(
            max((_rate(each) for each in listed if each.dimension == kind), default=Decimal(0))
            for kind in COMPARED_BY
        )


@dataclass(frozen=True)
class Savings:
    """Known costs of calls in the currency of one model's price, beside what they come to at it."""

    model: PricedModel
    experts: Sequence[audit_pb2.SimulatedCost]
    orchestrator: Money
    """The cost of the orchestrators' own tokens, which no one would need who asks one model."""
    uncompared: Sequence[str]
    """Tools and models whose calls have an unknown cost or another currency."""

    @property
    def spent(self) -> Money:
        return self._sum(each.posted for each in self.experts) + self.orchestrator

    @property
    def at_its_price(self) -> Money:
        return self._sum(each.simulated for each in self.experts)

    @property
    def saved(self) -> Money:
        return self.at_its_price - self.spent

    def _sum(self, amounts: Any) -> Money:
        return _sum_of(amounts, self.model.spec.currency_code)


@command(app, "savings")
async def savings(
    session: Session,
    *,
    against: Annotated[
        str, typer.Option(help="TOOL/MODEL to compare with; the most expensive by default.")
    ] = "",
    episode: Annotated[str, typer.Option(help="Only this episode.")] = "",
    since: Since = "",
    until: Annotated[str, typer.Option(help="Before this time.")] = "",
) -> None:
    """Compare what was spent with the same calls at one model's price.

    Every call of a model of a tool is priced again, with its own tokens. The orchestrator's tokens
    count as spent, and have no counterpart.
    """
    async with session.gateway() as gateway:
        models = await _priced_models(gateway)
        model = _chosen(models, against)
        request = audit_service_pb2.SimulatePricesRequest(
            specs=[_at_price_of(model, sku) for sku in sorted({each.spec.sku for each in models})],
            episode_id=episode,
        )
        for name, text in (("start_time", parse_start(since)), ("end_time", parse_time(until))):
            if text:
                getattr(request, name).FromJsonString(text)
        costs = (await simulated_costs(gateway, request)).rows
    found = _compared(model, costs)
    session.output.result(_values(found), _view(found))
    if found.uncompared:
        names = ", ".join(found.uncompared)
        session.output.note(f"not compared, of unknown cost or another currency: {names}")


async def _priced_models(gateway: Gateway) -> list[PricedModel]:
    found = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    models = [
        (tool.spec.name, model.alias, model.sku)
        for tool in found.tools
        for model in models_of(tool.spec)
        if model.api != tool_pb2.LLM_API_OPENAI_EMBEDDINGS
    ]
    skus = sorted({sku for _, _, sku in models} - {""})
    prices: dict[str, prices_pb2.Price] = {}
    for at in range(0, len(skus), SKUS_PER_REQUEST):
        kind, part = prices_pb2.GetEffectivePricesResponse, skus[at : at + SKUS_PER_REQUEST]
        prices |= (await gateway.get("/v1/prices/effective", kind, skus=part)).prices
    priced = [
        PricedModel(tool, alias, prices[sku].spec) for tool, alias, sku in models if sku in prices
    ]
    if not priced:
        raise UserError("no tool has a model with a price", "see `podium tools list --kind llm`")
    return priced


def _chosen(models: Sequence[PricedModel], name: str) -> PricedModel:
    if not name:
        # Prices in different currencies are not compared.
        code, _ = Counter(each.spec.currency_code for each in models).most_common(1)[0]
        alike = (each for each in models if each.spec.currency_code == code)
        return max(alike, key=lambda each: each.rates)
    chosen = [each for each in models if name in (each.name, each.tool)]
    if not chosen:
        known = ", ".join(sorted(each.name for each in models))
        raise UsageError(f"no model with a price is called {name!r}", f"use one of {known}")
    return max(chosen, key=lambda each: each.rates)


def _at_price_of(model: PricedModel, sku: str) -> prices_pb2.PriceSpec:
    return prices_pb2.PriceSpec(
        sku=sku, currency_code=model.spec.currency_code, components=model.spec.components
    )


def _compared(model: PricedModel, costs: Sequence[audit_pb2.SimulatedCost]) -> Savings:
    code = model.spec.currency_code
    # An orchestrator's own calls are charged under its name alone, and functions have no model.
    experts = [each for each in costs if each.model and each.model != each.tool]
    known = [each for each in experts if _is_known(each, code)]
    own = [each for each in costs if each.model and each.model == each.tool]
    unknown = [each for each in experts if each not in known]
    unknown += [each for each in own if each.unpriced_posted_count]
    return Savings(
        model,
        known,
        _sum_of((each.posted for each in own), code),
        sorted({f"{each.tool}/{each.model}" for each in unknown}),
    )


def _is_known(cost: audit_pb2.SimulatedCost, code: str) -> bool:
    currencies = {each.currency_code for each in (*cost.posted, *cost.simulated)}
    return not (cost.unpriced_posted_count or cost.unpriced_simulated_count) and currencies <= {
        code
    }


def _sum_of(amounts: Any, code: str) -> Money:
    total = added(each for some in amounts for each in some)
    return total.get(code, Money.zero(code))


def _share(part: Money, whole: Money) -> str:
    return f" ({part.amount / whole.amount:.0%})" if whole.amount else ""


def _rate(component: prices_pb2.PriceComponent) -> Decimal:
    return Decimal(component.unit_price) / Decimal(component.per or "1")


def _values(found: Savings) -> Mapping[str, Any]:
    return {
        "against": found.model.name,
        "sku": found.model.spec.sku,
        "currency_code": found.model.spec.currency_code,
        "spent": found.spent.amount_string(),
        "orchestrator": found.orchestrator.amount_string(),
        "at_its_price": found.at_its_price.amount_string(),
        "saved": found.saved.amount_string(),
        "uncompared": list(found.uncompared),
    }


def _view(found: Savings) -> Listing:
    code = found.model.spec.currency_code
    rows: list[tuple[str | Text, ...]] = []
    for cost in found.experts:
        posted, other = _sum_of([cost.posted], code), _sum_of([cost.simulated], code)
        amounts = (posted, other, other - posted)
        rows.append((cost.tool, cost.model, str(cost.call_count), *map(format_money, amounts)))
    own = found.orchestrator
    rows.append(("orchestrator", "-", "", format_money(own), "-", format_money(-own)))
    share = _share(found.saved, found.at_its_price)
    total = (
        "sum",
        f"against {found.model.name}",
        "",
        format_money(found.spent),
        format_money(found.at_its_price),
        f"{format_money(found.saved)}{share}",
    )
    rows.append(tuple(Text(cell, style="bold") for cell in total))
    return listing(COLUMNS, rows, ("calls#",))

"""A tool as the orchestrator sees it: price, latency and model choices worked in.

Every description ends the same way, so that a model can learn to read it:

    Price: $0.01 per call. Latency: under 1 s (p95 under 5 s). Success: over 99 %.

A choice of models is an enum in the schema; the description lists what each is good
at and a table like the paper's (appendix C): model, input price, output price, latency,
and what was measured besides: cost of a call and success. Figures are coarse: a model
needs no more, and a prompt whose words stay the same is served from the engine's cache.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from podium_kit.metering import Dimension
from podium_kit.money import Money
from tool_registry.models import Facts, ModelChoice, Price, PriceComponent, ToolKind, ToolSpec
from tool_registry.tools.checks import MODEL_ARGUMENT
from tool_registry.toolsets.prices import cost_of

FactsByModel = Mapping[tuple[str, str], Facts]
PricesBySku = Mapping[str, Price]
MILLION = Decimal(1_000_000)
TABLE_HEADER = (
    "model | input per million tokens | output per million tokens | latency"
    " | cost of a call | success"
)
TOKEN_NAMES = {
    Dimension.INPUT_FRESH: "input tokens",
    Dimension.CACHE_READ: "cached input tokens",
    Dimension.CACHE_WRITE_5M: "input tokens cached for 5 minutes",
    Dimension.CACHE_WRITE_1H: "input tokens cached for 1 hour",
    Dimension.OUTPUT_TEXT: "output tokens",
    Dimension.REASONING: "reasoning tokens",
    Dimension.AUDIO_INPUT: "audio input tokens",
    Dimension.AUDIO_OUTPUT: "audio output tokens",
}
GPU_SECOND = "GPU second"
LATENCY_STEPS_S = tuple(digit * 10**power for power in range(-2, 4) for digit in (1, 2, 5))
COST_STEPS = tuple(Decimal(digit).scaleb(power) for power in range(-9, 4) for digit in (1, 2, 5))
SUCCESS_STEPS = (99, 95, 90, 80, 50)
# One failure of two calls is no measurement.
SUCCESS_SAMPLES_MIN = 10
PRICE_OF_ORCHESTRATORS = "what it spends on models and tools, from your budget"


def describe_tool(
    spec: ToolSpec,
    choices: Sequence[ModelChoice],
    prices: Mapping[str, Price],
    facts: FactsByModel,
) -> str:
    """The owner's description, then what a call costs and how long it takes."""
    if offers_models(spec):
        return "\n".join([spec.description, *_model_lines(spec, choices, prices, facts)])
    price, measured = prices.get(choices[0].sku), facts_of(spec, choices[0], facts)
    words = PRICE_OF_ORCHESTRATORS if spec.kind is ToolKind.PODIUM else describe_price(price)
    said = [
        f"{spec.description.rstrip()} Price: {words}.",
        f"Latency: {describe_latency(measured)}.",
    ]
    if price and not _per_call_only(price) and (cost := describe_cost(price, measured)):
        said.append(f"Cost of a call: {cost}.")
    if success := describe_success(measured):
        said.append(f"Success: {success}.")
    return " ".join(said)


def parameters_with_models(spec: ToolSpec, choices: Sequence[ModelChoice]) -> str:
    """The arguments' schema; the models a policy leaves are the enum of `model`."""
    if not offers_models(spec):
        return spec.parameters_schema
    schema = json.loads(spec.parameters_schema)
    argument = {"type": "string", "enum": [choice.alias for choice in choices]}
    schema["properties"] = {**schema.get("properties", {}), MODEL_ARGUMENT: argument}
    schema["required"] = sorted({MODEL_ARGUMENT, *schema.get("required", [])})
    return json.dumps(schema, ensure_ascii=False)


def offers_models(spec: ToolSpec) -> bool:
    """Whether a call must say which model. One that a policy narrowed to one still must:
    the adapters know the version, not the policy."""
    return len(spec.models) > 1


def facts_of(spec: ToolSpec, choice: ModelChoice, facts: FactsByModel) -> Facts | None:
    """What was measured of a choice; of the whole tool when it has only one."""
    own = facts.get((spec.name, choice.alias))
    return own or (None if offers_models(spec) else facts.get((spec.name, "")))


def describe_price(price: Price | None) -> str:
    """For example `$0.20 per million input tokens, $0.01 per call`."""
    if price is None:
        return "price unknown"
    charged = [part for part in price.components if part.unit_price]
    return ", ".join(_describe(part, price.currency_code) for part in charged) or "free"


def describe_latency(facts: Facts | None) -> str:
    """For example `under 1 s (p95 under 5 s)`. No count of calls: it never stands still."""
    if facts is None:
        return "not measured yet"
    return f"{_coarse(facts.latency_p50_s)} (p95 {_coarse(facts.latency_p95_s)})"


def describe_cost(price: Price | None, facts: Facts | None) -> str:
    """What a call costs on average, for example `under $0.002`; empty when not known."""
    mean = mean_cost(price, facts)
    if mean is None:
        return ""
    step = next((step for step in COST_STEPS if mean.amount <= step), None)
    return f"under {_amount(step, mean.currency_code)}" if step else str(mean)


def describe_success(facts: Facts | None) -> str:
    """For example `over 95 %`; empty when too few calls were measured."""
    if facts is None or facts.sample_count < SUCCESS_SAMPLES_MIN:
        return ""
    percent = facts.success_rate * 100
    step = next((step for step in SUCCESS_STEPS if percent >= step), None)
    return f"over {step} %" if step else f"under {SUCCESS_STEPS[-1]} %"


def mean_cost(price: Price | None, facts: Facts | None) -> Money | None:
    """Average cost of the measured calls at a price; None when either is unknown."""
    if price is None or facts is None or not facts.sample_count:
        return None
    total = cost_of(price, facts.usage)
    return Money(total.amount / facts.sample_count, total.currency_code).quantized()


def _per_call_only(price: Price) -> bool:
    return all(part.dimension is Dimension.CALL for part in price.components)


def _model_lines(
    spec: ToolSpec,
    choices: Sequence[ModelChoice],
    prices: Mapping[str, Price],
    facts: FactsByModel,
) -> list[str]:
    about = [f"- {choice.alias}: {choice.description}" for choice in choices if choice.description]
    rows = [
        _model_row(choice, prices.get(choice.sku), facts_of(spec, choice, facts))
        for choice in choices
    ]
    return [*about, TABLE_HEADER, *rows]


def _model_row(choice: ModelChoice, price: Price | None, facts: Facts | None) -> str:
    cost, success = describe_cost(price, facts), describe_success(facts)
    cells = (
        choice.alias,
        *_token_cells(price),
        describe_latency(facts),
        cost or "unknown",
        success or "unknown",
    )
    return " | ".join(cells)


def _token_cells(price: Price | None) -> tuple[str, str]:
    """Input and output price; what is priced otherwise stands with the output."""
    if price is None:
        return "price unknown", "price unknown"
    columns = {Dimension.INPUT_FRESH: "free", Dimension.OUTPUT_TEXT: "free"}
    others = ""
    for part in price.components:
        if part.dimension in columns and part.unit_price:
            columns[part.dimension] = _amount(part.of_one_unit * MILLION, price.currency_code)
        elif part.unit_price:
            others += f", {_describe(part, price.currency_code)}"
    return columns[Dimension.INPUT_FRESH], columns[Dimension.OUTPUT_TEXT] + others


def _describe(part: PriceComponent, currency_code: str) -> str:
    if name := TOKEN_NAMES.get(part.dimension):
        return f"{_amount(part.of_one_unit * MILLION, currency_code)} per million {name}"
    name = GPU_SECOND if part.dimension is Dimension.GPU_SECOND else part.dimension.value
    return f"{_amount(part.of_one_unit, currency_code)} per {name}"


def _amount(amount: Decimal, currency_code: str) -> str:
    """At least two decimals, as prices are written; more only when they say something."""
    text = f"{amount.normalize():f}"
    whole, _, decimals = text.partition(".")
    text = f"{whole}.{decimals.ljust(2, '0')}"
    return f"${text}" if currency_code == "USD" else f"{text} {currency_code}"


def _coarse(seconds: float) -> str:
    """The next of 0.01, 0.02, 0.05, 0.1 ... s."""
    step = next((step for step in LATENCY_STEPS_S if seconds <= step), None)
    return f"over {LATENCY_STEPS_S[-1]:g} s" if step is None else f"under {step:g} s"

import json
from collections.abc import Mapping, Sequence

from podium_kit.attachments import MediaKind
from podium_kit.money import Money
from tool_registry.models import Facts, ModelChoice, Price, ToolSpec
from tool_registry.tools.checks import MODEL_ARGUMENT
from tool_registry.toolsets.prices import cost_of

WORDS_OF_KIND = {MediaKind.IMAGE: "images", MediaKind.PDF: "PDF files"}
FactsByModel = Mapping[tuple[str, str], Facts]
PricesBySku = Mapping[str, Price]


def describe_tool(spec: ToolSpec, choices: Sequence[ModelChoice]) -> str:
    """The owner's description, then what each model is good at and reads besides text."""
    if not offers_models(spec):
        reads = _reads(choices[0]) if choices else ""
        return f"{spec.description.rstrip()} {reads}" if reads else spec.description
    said = ((choice.alias, f"{choice.description} {_reads(choice)}".strip()) for choice in choices)
    about = [f"- {alias}: {words}" for alias, words in said if words]
    return "\n".join([spec.description, *about])


def _reads(choice: ModelChoice) -> str:
    kinds = " and ".join(WORDS_OF_KIND[kind] for kind in sorted(choice.takes))
    return f"Reads {kinds}." if kinds else ""


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
    """Returns whether a call must say which model. One that a policy narrowed to one still must:
    the adapters know the version, not the policy."""
    return len(spec.models) > 1


def facts_of(spec: ToolSpec, choice: ModelChoice, facts: FactsByModel) -> Facts | None:
    """The measurements of a choice; of the whole tool when it has only one."""
    own = facts.get((spec.name, choice.alias))
    return own or (None if offers_models(spec) else facts.get((spec.name, "")))


def mean_cost(price: Price | None, facts: Facts | None) -> Money | None:
    if price is None or facts is None or not facts.sample_count:
        return None
    total = cost_of(price, facts.usage)
    return Money(total.amount / facts.sample_count, total.currency_code).quantized()

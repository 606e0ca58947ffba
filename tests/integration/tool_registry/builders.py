import json
from decimal import Decimal
from typing import Any

from google.protobuf.duration_pb2 import Duration

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as ledger_pb
from podium.registry.v1 import tool_pb2
from podium_kit.metering import Dimension, LatencyHistogram, Quantity
from podium_kit.wire import quantities_to_proto

CALL = usage_pb2.USAGE_DIMENSION_CALL
INPUT = usage_pb2.USAGE_DIMENSION_INPUT_FRESH
OUTPUT = usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT
DOCUMENT = usage_pb2.USAGE_DIMENSION_DOCUMENT
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {"expression": {"type": "string"}},
    "required": ["expression"],
}


def make_spec(
    name: str = "calculator", schema: Any = ARGUMENTS, **changes: Any
) -> tool_pb2.ToolSpec:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    fields: dict[str, Any] = {
        "kind": tool_pb2.TOOL_KIND_FUNCTION,
        "description": "Evaluates arithmetic.",
        "connection": tool_pb2.Connection(function=tool_pb2.FunctionConnection(function=name)),
        "side_effect": tool_pb2.SIDE_EFFECT_PURE,
        "sku": f"tool/{name}",
    }
    return tool_pb2.ToolSpec(name=name, parameters_json_schema=text, **(fields | changes))


def make_podium_spec(name: str = "researcher", **podium: Any) -> tool_pb2.ToolSpec:
    schema = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}
    connection = tool_pb2.PodiumConnection(**{"model": "small", **podium})
    return make_spec(
        name,
        schema,
        kind=tool_pb2.TOOL_KIND_PODIUM,
        connection=tool_pb2.Connection(podium=connection),
        sku="",
    )


def make_model(alias: str, **changes: Any) -> tool_pb2.LlmModel:
    fields: dict[str, Any] = {
        "model": f"vendor/{alias}",
        "base_url": "http://127.0.0.1:9/v1",
        "api": tool_pb2.LLM_API_OPENAI_CHAT,
        "sku": f"llm/{alias}",
        "description": f"{alias} is good at some things.",
    }
    return tool_pb2.LlmModel(alias=alias, **(fields | changes))


def make_llm_spec(
    *models: tool_pb2.LlmModel, name: str = "answer", schema: Any = NO_ARGUMENTS, **changes: Any
) -> tool_pb2.ToolSpec:
    connection = tool_pb2.Connection(
        llm=tool_pb2.LlmConnection(
            models=models, role=tool_pb2.LLM_ROLE_GENERALIST, max_output_tokens=1_000
        )
    )
    fields: dict[str, Any] = {
        "kind": tool_pb2.TOOL_KIND_LLM,
        "connection": connection,
        "sku": "",
        "description": "Answers questions.",
    }
    return make_spec(name, schema, **(fields | changes))


def make_price(
    sku: str, prices: dict[str, tuple[str, str]], currency: str = "USD"
) -> ledger_pb.Price:
    """`make_price("llm/a", {"INPUT_FRESH": ("0.20", "1000000")})`: unit price and per."""
    components = [
        ledger_pb.PriceComponent(
            dimension=usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{name}"),
            unit_price=unit_price,
            per=per,
        )
        for name, (unit_price, per) in prices.items()
    ]
    return ledger_pb.Price(
        id=f"{sku}@1",
        spec=ledger_pb.PriceSpec(sku=sku, currency_code=currency, components=components),
    )


def make_facts(
    tool: str,
    model: str = "",
    *,
    count: int = 400,
    p50_s: float = 0.8,
    p95_s: float = 2.1,
    **changes: Any,
) -> tool_pb2.ToolFacts:
    """Four calls of five took p50_s, the others p95_s."""
    slow = count - count * 4 // 5
    latencies = LatencyHistogram.of([p50_s] * (count - slow) + [p95_s] * slow)
    fields: dict[str, Any] = {
        "success_rate": 1.0,
        "usage": quantities_to_proto([Quantity(Dimension.CALL, Decimal(count))]),
    }
    return tool_pb2.ToolFacts(
        tool_name=tool,
        model_alias=model,
        sample_count=count,
        latencies=tool_pb2.LatencyHistogram(counts=latencies.counts),
        **(fields | changes),
    )


def used(dimension: usage_pb2.UsageDimension.ValueType, amount: str) -> usage_pb2.Quantity:
    return usage_pb2.Quantity(dimension=dimension, amount=amount)


def seconds(value: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(value * 1e6))
    return duration

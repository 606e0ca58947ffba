from collections import Counter

from podium.registry.v1 import tool_pb2
from podium_kit.metering import LatencyHistogram
from podium_kit.wire import (
    duration_to_proto,
    money_to_proto,
    quantities_from_proto,
    quantities_to_proto,
)
from tool_registry.facts.store import FactsFormat
from tool_registry.models import Facts, MeasuredTool


def facts_from_proto(facts: tool_pb2.ToolFacts) -> Facts:
    return Facts(
        facts.tool_name,
        facts.model_alias,
        facts.sample_count,
        LatencyHistogram(Counter(dict(facts.latencies.counts))),
        facts.success_rate,
        quantities_from_proto(facts.usage),
    )


def measured_to_proto(measured: MeasuredTool) -> tool_pb2.ToolFacts:
    message = _facts_to_proto(measured.facts)
    message.latency_p50.CopyFrom(duration_to_proto(measured.facts.latency_p50_s))
    message.latency_p95.CopyFrom(duration_to_proto(measured.facts.latency_p95_s))
    if measured.mean_cost is not None:
        message.mean_cost.CopyFrom(money_to_proto(measured.mean_cost))
    return message


def _facts_to_proto(facts: Facts) -> tool_pb2.ToolFacts:
    return tool_pb2.ToolFacts(
        tool_name=facts.tool_name,
        model_alias=facts.model_alias,
        sample_count=facts.sample_count,
        success_rate=facts.success_rate,
        latencies=tool_pb2.LatencyHistogram(counts=facts.latencies.counts),
        usage=quantities_to_proto(facts.usage),
    )


STORED_FACTS = FactsFormat(
    write=lambda facts: _facts_to_proto(facts).SerializeToString(),
    read=lambda wire: facts_from_proto(tool_pb2.ToolFacts.FromString(wire)),
)

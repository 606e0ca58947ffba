from collections import Counter
from datetime import datetime, timedelta

from podium.registry.v1 import tool_pb2
from podium_kit.metering import LatencyHistogram
from podium_kit.wire import (
    duration_to_proto,
    money_to_proto,
    quantities_from_proto,
    quantities_to_proto,
)
from tool_registry.facts.store import FactsFormat
from tool_registry.models import Facts, MeasuredTool, Unavailability

# A tool that is left out is not called, so that no one would find it well again.
UNAVAILABLE_MAX = timedelta(minutes=5)


def facts_from_proto(facts: tool_pb2.ToolFacts, time: datetime) -> Facts:
    """The facts as they were at `time`."""
    left = min(facts.unavailable_for.ToTimedelta(), UNAVAILABLE_MAX)
    return Facts(
        facts.tool_name,
        facts.model_alias,
        facts.sample_count,
        LatencyHistogram(Counter(dict(facts.latencies.counts))),
        facts.success_rate,
        quantities_from_proto(facts.usage),
        Unavailability(facts.unavailable_reason, time + left) if left else None,
    )


def measured_to_proto(measured: MeasuredTool, time: datetime) -> tool_pb2.ToolFacts:
    message = _facts_to_proto(measured.facts, time)
    message.latency_p50.CopyFrom(duration_to_proto(measured.facts.latency_p50_s))
    message.latency_p95.CopyFrom(duration_to_proto(measured.facts.latency_p95_s))
    if measured.mean_cost is not None:
        message.mean_cost.CopyFrom(money_to_proto(measured.mean_cost))
    return message


def _facts_to_proto(facts: Facts, time: datetime) -> tool_pb2.ToolFacts:
    message = tool_pb2.ToolFacts(
        tool_name=facts.tool_name,
        model_alias=facts.model_alias,
        sample_count=facts.sample_count,
        success_rate=facts.success_rate,
        latencies=tool_pb2.LatencyHistogram(counts=facts.latencies.counts),
        usage=quantities_to_proto(facts.usage),
    )
    if facts.unavailable is not None:
        message.unavailable_reason = facts.unavailable.reason
        message.unavailable_for.FromTimedelta(facts.unavailable.until - time)
    return message


STORED_FACTS = FactsFormat(
    write=lambda facts, time: _facts_to_proto(facts, time).SerializeToString(),
    read=lambda wire, time: facts_from_proto(tool_pb2.ToolFacts.FromString(wire), time),
)

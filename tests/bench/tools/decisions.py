import time
from datetime import UTC, datetime
from decimal import Decimal

from bench.figures import Figures, say
from integration.tool_registry.builders import make_facts, make_spec
from podium.registry.v1 import policy_pb2
from podium_kit.metering import Dimension
from podium_kit.money import Money
from podium_kit.wire import duration_to_proto, money_to_proto
from tool_registry.facts.convert import facts_from_proto
from tool_registry.facts.measurements import utc_now
from tool_registry.models import Facts, Price, PriceComponent, ToolVersion
from tool_registry.policies.convert import policy_from_proto
from tool_registry.tools.catalogue import Tools
from tool_registry.tools.convert import stored_spec
from tool_registry.toolsets.resolver import Known, PlannedCall, decide_call

TOOLS = 10_000
ROUNDS = 5
TARGET_US = 50


async def measure_decisions(figures: Figures) -> None:
    """Every tool decided several times; processor time, as other processes are no part of it."""
    say("policy decisions")
    tools = [_tool(number) for number in range(TOOLS)]
    known = Known(Tools({}), _prices(), _facts(), llm_input_tokens_max=32_768)
    policy = policy_from_proto(_policy())
    planned = [(tool, PlannedCall(tool.spec.name, 1, "")) for tool in tools] * ROUNDS
    for tool, call in planned[:TOOLS]:
        # What is derived from measurements once is derived when toolsets are resolved.
        decide_call(policy, tool, call, known)
    taken_us = []
    for tool, call in planned:
        start = time.thread_time_ns()
        decide_call(policy, tool, call, known)
        taken_us.append((time.thread_time_ns() - start) / 1000)
    ordered = sorted(taken_us)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    figures.note("decision.p50_us", round(p50, 2))
    figures.note("decision.p99_us", round(p99, 2))
    figures.ratio("tools.decision_p99_us_of_50", p99 / TARGET_US, "<=", 1)


def _tool(number: int) -> ToolVersion:
    tags = [f"team-{number % 50}", "on-premise" if number % 3 else "cloud"]
    spec = stored_spec(make_spec(f"tool-{number}", tags=tags).SerializeToString())
    return ToolVersion("", 1, spec, str(number), utc_now(), "ada")


def _prices() -> dict[str, Price]:
    part = PriceComponent(Dimension.CALL, Decimal("0.01"), Decimal(1))
    second = PriceComponent(Dimension.SECOND, Decimal("0.0000083"), Decimal(1))
    return {f"tool/tool-{number}": Price("USD", (part, second)) for number in range(TOOLS)}


def _facts() -> dict[tuple[str, str], Facts]:
    now = datetime.now(UTC)
    return {
        (f"tool-{number}", ""): facts_from_proto(make_facts(f"tool-{number}", count=20), now)
        for number in range(TOOLS)
    }


def _policy() -> policy_pb2.PolicySpec:
    """Lists of a thousand names, tags, both ceilings and approvals."""
    names = [f"tool-{number}" for number in range(0, TOOLS, 10)]
    return policy_pb2.PolicySpec(
        name="everything",
        allow=policy_pb2.ToolSelector(tags=["on-premise", "cloud"]),
        deny=policy_pb2.ToolSelector(names=names),
        required_tags=["on-premise"],
        approval=policy_pb2.ToolSelector(tags=["team-7"]),
        price_ceiling=money_to_proto(Money(Decimal(1), "USD")),
        latency_ceiling=duration_to_proto(60.0),
    )

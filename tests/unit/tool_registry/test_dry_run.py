"""What a policy would have changed in episodes that are over."""

from decimal import Decimal

from podium_kit.money import Money
from tool_registry.history.dry_run import dry_run
from tool_registry.history.past_episodes import PastCall
from tool_registry.toolsets.call_decisions import CallDecision
from unit.tool_registry.test_adherence import episode


def call(tool: str, cost: str | None = "0.01") -> PastCall:
    price = None if cost is None else Money(Decimal(cost), "USD")
    return PastCall(tool, 1, "", price, failed=False)


def decide(call: PastCall) -> CallDecision:
    return CallDecision(call.tool_name != "web", "denied by name web", call.tool_name == "mail")


def test_rejected_calls_are_counted_priced_and_grouped() -> None:
    episodes = [
        episode("a", calls=(call("web"), call("web", "0.02"), call("local"))),
        episode("b", calls=(call("mail", "0.5"),)),
    ]
    run = dry_run(episodes, decide)
    assert (run.episode_count, run.call_count, run.rejected_call_count) == (2, 4, 2)
    assert (run.affected_episode_count, run.approval_call_count) == (1, 1)
    assert run.rejected_cost == Money(Decimal("0.03"), "USD")
    assert run.cost == Money(Decimal("0.54"), "USD")
    [group] = run.rejected
    assert (group.tool_name, group.call_count, group.cost) == ("web", 2, run.rejected_cost)


def test_a_group_counts_its_calls_of_unknown_cost_beside_the_sum_of_the_others() -> None:
    run = dry_run([episode("a", calls=(call("web"), call("web", None)))], decide)
    group = run.rejected[0]
    assert (group.cost, group.unpriced_call_count) == (Money(Decimal("0.01"), "USD"), 1)
    assert run.rejected_cost == Money(Decimal("0.01"), "USD")

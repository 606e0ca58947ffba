import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podium.episodes.v1 import episode_service_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb2
from podium_cli.demo.solving import Outcome
from podium_kit.client.gateway import Gateway, segment
from podium_kit.money import Money
from podium_kit.wire import money_from_proto, optional_money_from_proto

CURRENCY = "USD"
ORCHESTRATOR = "orchestrator model"


@dataclass(frozen=True)
class ToolSpend:
    name: str
    calls: int
    unpriced_calls: int
    cost: Money

    @property
    def known_cost(self) -> Money | None:
        """The sum of known costs; None when no call had a price."""
        return None if self.unpriced_calls == self.calls else self.cost


@dataclass(frozen=True)
class Accounts:
    """Two independent sums of the same calls."""

    by_tool: tuple[ToolSpend, ...]
    ledger: Money
    trajectories: Money

    @property
    def agree(self) -> bool:
        """True if both sums are equal to the last digit."""
        return self.ledger == self.trajectories

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.by_tool)


async def accounts(gateway: Gateway, outcomes: Sequence[Outcome]) -> Accounts:
    by_tool, costs = await asyncio.gather(
        _ledger(gateway, {outcome.episode_id for outcome in outcomes}),
        asyncio.gather(*(_trajectory_cost(gateway, outcome) for outcome in outcomes)),
    )
    return Accounts(by_tool, _sum(each.cost for each in by_tool), _sum(costs))


async def _ledger(gateway: Gateway, episodes: set[str]) -> tuple[ToolSpend, ...]:
    report = await gateway.all(
        "/v1/spend",
        ledger_pb2.ReportSpendResponse,
        group_by=["SPEND_DIMENSION_EPISODE", "SPEND_DIMENSION_TOOL"],
        page_size=1000,
    )
    rows: dict[str, list[ledger_pb2.SpendRow]] = {}
    for row in report.rows:
        episode, tool = row.values
        if episode in episodes:
            rows.setdefault(tool or ORCHESTRATOR, []).append(row)
    spends = [_tool_spend(name, of_tool) for name, of_tool in rows.items()]
    return tuple(sorted(spends, key=lambda spend: (-spend.cost.amount, spend.name)))


def _tool_spend(name: str, rows: list[ledger_pb2.SpendRow]) -> ToolSpend:
    return ToolSpend(
        name,
        sum(row.call_count for row in rows),
        sum(row.unpriced_call_count for row in rows),
        _sum(money_from_proto(amount) for row in rows for amount in row.amounts),
    )


async def _trajectory_cost(gateway: Gateway, outcome: Outcome) -> Money:
    path = f"/v1/episodes/{segment(outcome.episode_id)}/trajectory"
    reply = await gateway.get(path, episode_service_pb2.GetTrajectoryResponse)
    turns = reply.trajectory.turns
    costs = [turn.model_call.cost for turn in turns]
    costs += [call.cost for turn in turns for call in turn.tool_invocations]
    return _sum(cost for cost in map(optional_money_from_proto, costs) if cost is not None)


def _sum(amounts: Iterable[Money]) -> Money:
    return sum(amounts, Money.zero(CURRENCY))

"""Past tasks of a policy that may be played again, and the budget of the day that pays for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2
from podium.registry.v1 import policy_pb2
from podium_cli.formats import counted
from podium_cli.output import Output
from podium_evaluation.suites.past_episodes import EpisodeFilter, past_tasks
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.money import Money
from podium_kit.wire import money_from_proto
from podium_training.rollouts.rolling import known_tools
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split, Task


def replay_budget(policy: policy_pb2.Policy) -> money_pb2.Money:
    """Raises UsageError for a policy that does not consent, or has no budget."""
    name = policy.spec.name
    if not policy.spec.training_consent:
        raise UsageError(
            f"policy {name} does not consent to training, so its episodes are not read",
            "add `training_consent: true` to it",
        )
    if not policy.spec.learning.HasField("replay_budget"):
        raise UsageError(
            f"policy {name} has no replay budget", "add `learning: {replay_budget: 5 USD}` to it"
        )
    return policy.spec.learning.replay_budget


@dataclass(frozen=True)
class PlayableTasks:
    learnt: Sequence[Task]
    held_out: Sequence[Task]
    """The fifth that is never played for learning."""
    tools: Mapping[str, Sequence[str]]
    """The tools that the policy offers, with the SKUs of their calls."""


async def playable_tasks(gateway: Gateway, output: Output, wanted: EpisodeFilter) -> PlayableTasks:
    """The past tasks of a policy whose tools it still offers; notes what is left out, and why."""
    found = await past_tasks(gateway, wanted)
    for reason, left_out in found.left_out.most_common():
        output.note(f"{counted(left_out, 'episode')} left out: {reason}")
    tools = await known_tools(gateway, [wanted.policy])
    tasks = [
        replace(task, split=split_of(task.id))
        for task in found.tasks.values()
        if set(task.tools) <= tools.keys()
    ]
    learnt = [task for task in tasks if task.split is Split.TRAIN]
    return PlayableTasks(learnt, [task for task in tasks if task not in learnt], tools)


def replay_agent(policy: str) -> str:
    """Returns the agent whose budget, of the same name, pays for the replays of a policy."""
    return f"replay-{policy}"


async def set_replay_budget(gateway: Gateway, policy: str, limit: money_pb2.Money) -> None:
    """Creates the budget of a day, or brings the one there is to the policy's limit."""
    name = replay_agent(policy)
    budget = budget_service_pb2.Budget(
        id=name,
        scope=budget_service_pb2.BUDGET_SCOPE_AGENT,
        scope_id=name,
        window=budget_service_pb2.BUDGET_WINDOW_DAY,
        hard_limit=limit,
    )
    request = budget_service_pb2.CreateBudgetRequest(budget=budget)
    try:
        await gateway.post("/v1/budgets", request, budget_service_pb2.CreateBudgetResponse)
    except Rejected as error:
        if error.reason != "BUDGET_CONFLICT":
            raise
        change = budget_service_pb2.UpdateBudgetRequest(hard_limit=limit)
        change.update_mask.paths.append("hard_limit")
        path = f"/v1/budgets/{segment(name)}"
        await gateway.patch(path, change, budget_service_pb2.UpdateBudgetResponse)


async def spent_today(gateway: Gateway, policy: str) -> Money:
    path = f"/v1/budgets/{segment(replay_agent(policy))}"
    found = await gateway.get(path, budget_service_pb2.GetBudgetResponse)
    return money_from_proto(found.status.posted)

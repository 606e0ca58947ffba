import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, Unreachable
from podium_kit.client.rejections import Rejected
from podium_training.rollouts.payloads import GroupOfRun, PlannedRun, RolloutRun, RolloutTotals
from podium_training.rollouts.plan import Group, InvalidRun, Offer, plan
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.rollouts.workflow import PLAN_RUN, ROLL_GROUP
from podium_training.tasks.files import read_tasks, task_digest

HEARTBEAT_S = 1.0


class RolloutActivities:
    """Repeatable: the platform knows every episode by the id that the plan gives it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._planned: tuple[RolloutRun, list[Group]] | None = None

    @activity.defn(name=PLAN_RUN)
    async def plan_run(self, run: RolloutRun) -> PlannedRun:
        async with working():
            _check_unchanged(run)
            tasks = read_tasks(Path(run.task_file))
            tools = await known_tools(self._gateway, run.policies)
            return PlannedRun(list(tools), len(tasks), tools)

    @activity.defn(name=ROLL_GROUP)
    async def roll_group(self, group: GroupOfRun) -> RolloutTotals:
        run = group.run
        async with working():
            _check_unchanged(run)
            planned = self._groups_of(run)[group.index]
            roller = Roller(self._gateway, run.limits, run.run_id)
            return _totals(await roller.roll([planned], run.group_size, lambda _: None))

    def _groups_of(self, run: RolloutRun) -> list[Group]:
        """Kept for the next group: to plan anew for each would take the square of their number."""
        if self._planned is None or self._planned[0] != run:
            tasks = read_tasks(Path(run.task_file))
            self._planned = run, plan(run.run_id, tasks, run.group_size, _offer(run))
        return self._planned[1]


def _check_unchanged(run: RolloutRun) -> None:
    path = Path(run.task_file)
    if task_digest(path) != run.task_digest:
        raise not_repeated(f"{path} is not what the run began with; restore it or start anew")


def _offer(run: RolloutRun) -> Offer:
    tools = {name: run.tool_skus.get(name, []) for name in run.tool_names}
    return Offer(
        tools,
        run.tools_max,
        run.price_spread,
        run.tool_subsets,
        tuple(run.always),
        tuple(run.policies),
        run.withheld,
    )


def _totals(rolled: Sequence[Rolled]) -> RolloutTotals:
    return RolloutTotals(
        groups=1,
        episodes=len(rolled),
        solved=sum(each.score == 1 for each in rolled),
        unjudged=sum(each.score is None for each in rolled),
    )


@asynccontextmanager
async def working() -> AsyncIterator[None]:
    """Heartbeats, and errors as Temporal must see them: an absent platform comes back."""
    beating = asyncio.create_task(_beat())
    try:
        yield
    except Unreachable:
        raise
    except (UserError, InvalidRun) as error:
        if isinstance(error, Rejected) and error.temporary:
            raise
        raise not_repeated(str(error)) from error
    finally:
        beating.cancel()


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_S)


def not_repeated(words: str) -> ApplicationError:
    return ApplicationError(words, type="RolloutRejected", non_retryable=True)

"""An arm: one orchestrator on a whole platform, on every task under every preference."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import say
from bench.orchestrators.expert import TOOL, always_expert_server, expert_tool
from bench.orchestrators.journal import Journal
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb2
from podium_cli.local.engines import EngineChoice
from podium_cli.local.platform import LocalPlatform, PlatformOptions
from podium_cli.local.running import fill
from podium_kit.client.gateway import Gateway
from podium_training.gate import Evaluated
from podium_training.rollouts import Group, Offer, Rollout, RolloutLimits, plan
from podium_training.rollouts.ids import derived_id
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.tasks.task import Task

PREFERENCES = ("accuracy-first", "cost-first", "speed-first")
# Priced as the models of the other arms are: who orchestrates is to make the difference.
ALWAYS_EXPERT_NAME = "smollm2-135m-instruct"


class Arm(StrEnum):
    """Who orchestrates; the slowest last."""

    ALWAYS_EXPERT = "always the expert"
    TRAINED = "trained"
    UNTRAINED = "untrained"


# Episodes in flight. The expert is waited for; models compute here, and slow each other.
AT_ONCE = {Arm.ALWAYS_EXPERT: 8, Arm.TRAINED: 2, Arm.UNTRAINED: 2}


@dataclass(frozen=True)
class Course:
    """What every arm runs: the same tasks with the same tools."""

    run_id: str
    tasks: Sequence[Task]
    tools: int
    turn_limit: int = 6
    time_limit_s: float = 600.0
    """Against an episode that never ends, on a machine of any speed; latency is measured."""


async def run_arm(arm: Arm, course: Course, expert_url: str, journal: Journal) -> None:
    """Adds the arm's episodes to the journal, but for those it has."""
    left = {
        preference: [t for t in course.tasks if not journal.has(arm, preference, t.id)]
        for preference in PREFERENCES
    }
    if not any(left.values()):
        return
    async with _platform(arm) as gateway:
        spec = expert_tool(expert_url)
        await gateway.post(
            "/v1/tools",
            registry_pb2.RegisterToolRequest(spec=spec, shared=True),
            registry_pb2.RegisterToolResponse,
        )
        for preference, tasks in left.items():
            say(f"  {arm}, {preference}: {len(tasks)} tasks")
            await _episodes(gateway, replace(course, tasks=tasks), arm, preference, journal)


async def _episodes(
    gateway: Gateway, course: Course, arm: Arm, preference: str, journal: Journal
) -> None:
    # Greedy, as `podium run` asks a model.
    limits = RolloutLimits(preference, "", course.turn_limit, course.time_limit_s, temperature=0.0)
    offer = Offer(await known_tools(gateway), course.tools, always=(TOOL,))
    planned = plan(course.run_id, course.tasks, 1, offer)
    groups = [_under(preference, group, course.run_id) for group in planned]

    def keep(rolled: Rolled) -> None:
        say(f"    {rolled.group.task.id}: {rolled.score} ({rolled.stop_reason})")
        journal.add(arm, preference, _evaluated(rolled))

    await Roller(gateway, limits, course.run_id).roll(groups, AT_ONCE[arm], keep)


def _under(preference: str, group: Group, run_id: str) -> Group:
    """The same tools under every preference; ids of its own, or it would be the same episode."""
    rollout = Rollout(derived_id(run_id, preference, group.task.id), 0)
    group_id = derived_id(run_id, preference, group.task.id, "group")
    return replace(group, id=group_id, rollouts=(rollout,))


@asynccontextmanager
async def _platform(arm: Arm) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-bench-")))
        engine = EngineChoice(untrained=arm is Arm.UNTRAINED)
        if arm is Arm.ALWAYS_EXPERT:
            server = stack.enter_context(always_expert_server(ALWAYS_EXPERT_NAME))
            engine = EngineChoice(openai_base_url=server.base_url, model=ALWAYS_EXPERT_NAME)
        say(f"starting the platform: {arm}")
        options = PlatformOptions(folder / "state", engine, telemetry=False)
        platform = LocalPlatform(options, _quiet)
        stack.push_async_callback(platform.stop)
        await platform.start()
        connection = await fill(platform, _quiet)
        yield await stack.enter_async_context(Gateway(connection.gateway_url, connection.admin_key))


def _evaluated(rolled: Rolled) -> Evaluated:
    if rolled.evaluated is None:
        raise RuntimeError(f"{rolled.group.task.id}: no model answered ({rolled.reason})")
    return rolled.evaluated


def _quiet(_step: str, _done: bool) -> None:
    """Reports nothing."""

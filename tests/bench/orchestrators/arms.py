"""An arm: one orchestrator on a whole platform, on every task under every preference."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import say
from bench.orchestrators.expert import TOOL, always_expert_server, expert_tool
from gate import Evaluated
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb2
from podium_cli.gateway import Gateway
from podium_cli.local.engines import EngineChoice
from podium_cli.local.platform import LocalPlatform, PlatformOptions
from podium_cli.local.running import fill
from podium_cli.training.rolling import Rolled, Roller, known_tools
from rollouts import Offer, RolloutLimits, plan
from tasksets.task import Task

PREFERENCES = ("accuracy-first", "cost-first", "speed-first")
# Priced as the models of the other arms are: who orchestrates is to make the difference.
ALWAYS_EXPERT_NAME = "smollm2-135m-instruct"
AT_ONCE = 2


class Arm(StrEnum):
    """Who orchestrates."""

    UNTRAINED = "untrained"
    ALWAYS_EXPERT = "always the expert"
    TRAINED = "trained"


@dataclass(frozen=True)
class Course:
    """What every arm runs: the same tasks with the same tools."""

    run_id: str
    tasks: Sequence[Task]
    tools: int
    turn_limit: int = 6
    time_limit_s: float = 120.0


async def run_arm(arm: Arm, course: Course, expert_url: str) -> dict[str, list[Evaluated]]:
    """Episodes by preference, in the order of the tasks."""
    async with _platform(arm) as gateway:
        spec = expert_tool(expert_url)
        await gateway.post(
            "/v1/tools",
            registry_pb2.RegisterToolRequest(spec=spec, shared=True),
            registry_pb2.RegisterToolResponse,
        )
        found = {}
        for preference in PREFERENCES:
            say(f"  {arm}, {preference}")
            found[preference] = await _episodes(gateway, course, preference)
        return found


async def _episodes(gateway: Gateway, course: Course, preference: str) -> list[Evaluated]:
    # Greedy, as `podium run` asks a model.
    limits = RolloutLimits(preference, "", course.turn_limit, course.time_limit_s, temperature=0.0)
    known = await known_tools(gateway)
    offer = Offer({name: skus for name, skus in known.items() if name != TOOL}, course.tools)
    planned = plan(course.run_id, course.tasks, 1, offer)
    groups = [replace(group, tool_names=(*group.tool_names, TOOL)) for group in planned]
    roller = Roller(gateway, limits, course.run_id)
    rolled = await roller.roll(groups, AT_ONCE, _tell)
    return [_evaluated(each) for each in rolled]


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


def _tell(rolled: Rolled) -> None:
    say(f"    {rolled.group.task.id}: {rolled.score} ({rolled.stop_reason})")


def _quiet(_step: str, _done: bool) -> None:
    """Reports nothing."""

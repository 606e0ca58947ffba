from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import say
from bench.orchestrators.experts import always_asking
from bench.orchestrators.journal import Journal
from bench.orchestrators.measuring import measure_experts
from bench.orchestrators.study import NewName, Study
from local_platforms import quiet
from podium.registry.v1 import policy_service_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb2
from podium_cli.up.running import fill
from podium_kit.client.gateway import Gateway
from podium_kit.derived_ids import derived_uuid7
from podium_operations.local.engines import TRAINED_NAME, EngineChoice
from podium_operations.local.platform import LocalPlatform, PlatformOptions
from podium_training.gate import Evaluated
from podium_training.rollouts import Group, Offer, Rollout, RolloutLimits, plan
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.tasks.task import Task

TRAINED, START = "trained", "its start"
# Episodes in flight: an expert answers at once, models compute here and slow each other.
EXPERTS_AT_ONCE, MODELS_AT_ONCE = 8, 4


@dataclass(frozen=True)
class Arm:
    """Who orchestrates: a model, or a rule that always asks the expert of that alias."""

    name: str
    expert: str = ""
    model_dir: Path | None = None
    """Unset and no expert: the bundled policy."""


@dataclass(frozen=True)
class Course:
    run_id: str
    study: Study
    tasks: Sequence[Task]
    tools: int
    withheld: float
    turn_limit: int = 6
    time_limit_s: float = 600.0
    """Against an episode that never ends, on a machine of any speed; latency is measured."""


def arms(study: Study, others: Mapping[str, Path]) -> list[Arm]:
    """Every single expert, other policies by name, and the trained one."""
    experts = [Arm(f"always {each.alias}", expert=each.alias) for each in study.pool.experts]
    return [*experts, *(Arm(name, model_dir=at) for name, at in others.items()), Arm(TRAINED)]


async def run_arm(arm: Arm, course: Course, tool: tool_pb2.ToolSpec, journal: Journal) -> None:
    """Adds the arm's episodes to the journal, but for those it has."""
    policies = course.study.specs()
    left = {
        policy: [t for t in course.tasks if not journal.has(arm.name, policy, t.id)]
        for policy in policies
    }
    if not any(left.values()):
        return
    async with _platform(arm, course.study.pool.tool) as gateway:
        await _register(gateway, tool)
        for known, new in course.study.tools.items():
            await _register(gateway, await _renamed(gateway, known, new))
        for spec in policies.values():
            created = policy_service_pb2.CreatePolicyRequest(spec=spec)
            await gateway.post("/v1/policies", created, policy_service_pb2.CreatePolicyResponse)
        await measure_experts(gateway, course.study.pool, course.tasks, next(iter(policies)))
        for policy, tasks in left.items():
            say(f"  {arm.name}, {policy}: {len(tasks)} tasks")
            await _episodes(gateway, replace(course, tasks=tasks), arm, policy, journal)


async def _register(gateway: Gateway, tool: tool_pb2.ToolSpec) -> None:
    request = registry_pb2.RegisterToolRequest(spec=tool, shared=True)
    await gateway.post("/v1/tools", request, registry_pb2.RegisterToolResponse)


async def _renamed(gateway: Gateway, known: str, new: NewName) -> tool_pb2.ToolSpec:
    reply = await gateway.get(f"/v1/tools/{known}", registry_pb2.GetToolResponse)
    spec = reply.tool.spec
    spec.name, spec.description = new.name, new.description
    return spec


async def _episodes(
    gateway: Gateway, course: Course, arm: Arm, policy: str, journal: Journal
) -> None:
    limits = RolloutLimits(
        "", course.turn_limit, course.time_limit_s, temperature=course.study.temperature
    )
    offer = Offer(
        {k: v for k, v in (await known_tools(gateway)).items() if k not in course.study.tools},
        course.tools,
        course.study.price_spread,
        always=(course.study.pool.tool,),
        policies=(policy,),
        withheld=course.withheld,
    )
    planned = plan(course.run_id, course.tasks, 1, offer)
    groups = [_under(policy, group, course.run_id) for group in planned]

    def keep(rolled: Rolled) -> None:
        say(f"    {rolled.group.task.id}: {rolled.score} ({rolled.stop_reason})")
        journal.add(arm.name, policy, _evaluated(rolled))

    at_once = EXPERTS_AT_ONCE if arm.expert else MODELS_AT_ONCE
    await Roller(gateway, limits, course.run_id).roll(groups, at_once, keep)


def _under(policy: str, group: Group, run_id: str) -> Group:
    """The same tools under every policy; ids of its own, or it would be the same episode."""
    rollout = Rollout(derived_uuid7(run_id, policy, group.task.id), 0)
    group_id = derived_uuid7(run_id, policy, group.task.id, "group")
    return replace(group, id=group_id, rollouts=(rollout,))


@asynccontextmanager
async def _platform(arm: Arm, expert_tool: str) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-bench-")))
        # All are priced as the trained one: who orchestrates is to make the difference.
        engine = EngineChoice(arm.model_dir, model=TRAINED_NAME if arm.model_dir else "")
        if arm.expert:
            server = stack.enter_context(always_asking(expert_tool, arm.expert, TRAINED_NAME))
            engine = EngineChoice(openai_base_url=server.base_url, model=TRAINED_NAME)
        say(f"starting the platform: {arm.name}")
        options = PlatformOptions(folder / "state", engine, telemetry=False)
        platform = LocalPlatform(options, quiet)
        stack.push_async_callback(platform.stop)
        await platform.start()
        connection = await fill(platform, quiet)
        yield await stack.enter_async_context(Gateway(connection.gateway_url, connection.admin_key))


def _evaluated(rolled: Rolled) -> Evaluated:
    if rolled.evaluated is None:
        raise RuntimeError(f"{rolled.group.task.id}: no model answered ({rolled.reason})")
    return rolled.evaluated

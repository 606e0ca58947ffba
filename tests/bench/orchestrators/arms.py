from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import say
from bench.orchestrators.journal import Journal
from bench.orchestrators.measuring import measure_experts
from bench.orchestrators.practice import practise
from bench.orchestrators.study import NewName, Study
from local_platforms import quiet
from podium.registry.v1 import policy_service_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb2
from podium_cli.up.running import fill
from podium_kit.client.gateway import Gateway
from podium_kit.derived_ids import derived_uuid7
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.models.rules import ALWAYS, CHEAPEST, COMPETENCE, RANDOM, WORTH
from podium_operations.local.engines import TRAINED_NAME, EngineChoice
from podium_operations.local.platform import LocalPlatform, PlatformOptions
from podium_training.gate import Evaluated
from podium_training.rollouts import Group, Offer, Rollout, RolloutLimits, plan
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.tasks.task import Task

TRAINED, START = "trained", "its start"
COMPETENT = "rule: worth and competence"
PROMPT_ONLY, WITHOUT_TOOLS = "prompt only", "prompt only, without tools"
# It writes to the limit of its tokens in nearly every turn: a minute an episode.
UNTRAINED_POLICIES = ("bench-balanced",)
# Episodes in flight: a rule answers at once, models compute here and slow each other.
RULES_AT_ONCE, MODELS_AT_ONCE = 16, 4


@dataclass(frozen=True)
class Arm:
    """An orchestrator: a model, or a rule that decides in place of one."""

    name: str
    rule: str = ""
    """The name under which episodes are decided by it; empty: the model decides."""
    model_dir: Path | None = None
    """Unset: the bundled policy, beside which rules are played."""
    turn_limit: int = 6
    policies: tuple[str, ...] = ()
    """The vectors it plays under; empty: all."""
    practised: bool = False
    """True where verified episodes of other tasks precede it; such arms come last."""

    @property
    def is_expert(self) -> bool:
        return self.rule.startswith(ALWAYS)

    def plays(self, study: Study) -> list[str]:
        return [name for name in study.specs() if not self.policies or name in self.policies]


@dataclass(frozen=True)
class Course:
    """The tasks of one seed, which chooses the tools and prices of each as well."""

    seed: int
    families: Sequence[str]
    run_id: str
    study: Study
    tasks: Sequence[Task]
    tools: int
    withheld: float
    time_limit_s: float = 600.0
    """Against an episode that never ends, on a machine of any speed; latency is measured."""


def arms(study: Study, others: Mapping[str, Path]) -> list[Arm]:
    """Every single expert, the rules, the trained policy, others, and its model untrained."""
    pool = study.pool
    rules = {f"always {each.alias}": f"{ALWAYS}{pool.tool}/{each.alias}" for each in pool.experts}
    rules |= {"rule: worth most": WORTH, "rule: cheapest": CHEAPEST, "rule: random": RANDOM}
    base = SmolLM2().directory
    untrained = (
        Arm(PROMPT_ONLY, model_dir=base, policies=UNTRAINED_POLICIES),
        # Its first turn is its last, which may only answer.
        Arm(WITHOUT_TOOLS, model_dir=base, turn_limit=1, policies=UNTRAINED_POLICIES),
    )
    return [
        *(Arm(name, rule) for name, rule in rules.items()),
        Arm(TRAINED),
        Arm(COMPETENT, COMPETENCE, practised=True),
        *(Arm(name, model_dir=at) for name, at in others.items()),
        *(untrained if study.untrained else ()),
    ]


async def run_arms(
    compared: Sequence[Arm], courses: Sequence[Course], tool: tool_pb2.ToolSpec, journal: Journal
) -> None:
    """Adds the arms' episodes to the journal, but for those it has."""
    for model_dir, group in groupby(compared, key=lambda arm: arm.model_dir):
        remaining = [arm for arm in group if _has_remaining(arm, courses, journal)]
        if not remaining:
            continue
        async with _platform(model_dir) as gateway:
            first, practised = courses[0], False
            await _prepare(gateway, first, tool)
            for arm in remaining:
                if arm.practised and not practised:
                    practised = True
                    await practise(gateway, first.run_id, first.study, first.seed, first.families)
                for course in courses:
                    await _play(gateway, course, arm, journal)


def _has_remaining(arm: Arm, courses: Sequence[Course], journal: Journal) -> bool:
    return any(
        not journal.has(arm.name, policy, task.id)
        for course in courses
        for policy in arm.plays(course.study)
        for task in course.tasks
    )


async def _prepare(gateway: Gateway, course: Course, tool: tool_pb2.ToolSpec) -> None:
    study, policies = course.study, course.study.specs()
    await _register(gateway, tool)
    for known, new in study.tools.items():
        await _register(gateway, await _renamed(gateway, known, new))
    for spec in policies.values():
        created = policy_service_pb2.CreatePolicyRequest(spec=spec)
        await gateway.post("/v1/policies", created, policy_service_pb2.CreatePolicyResponse)
    await measure_experts(gateway, study.pool, course.tasks, next(iter(policies)))


async def _register(gateway: Gateway, tool: tool_pb2.ToolSpec) -> None:
    request = registry_pb2.RegisterToolRequest(spec=tool, shared=True)
    await gateway.post("/v1/tools", request, registry_pb2.RegisterToolResponse)


async def _renamed(gateway: Gateway, known: str, new: NewName) -> tool_pb2.ToolSpec:
    reply = await gateway.get(f"/v1/tools/{known}", registry_pb2.GetToolResponse)
    spec = reply.tool.spec
    spec.name, spec.description = new.name, new.description
    return spec


async def _play(gateway: Gateway, course: Course, arm: Arm, journal: Journal) -> None:
    study = course.study
    limits = RolloutLimits(arm.rule, arm.turn_limit, course.time_limit_s, study.temperature)
    tools = {k: v for k, v in (await known_tools(gateway, [])).items() if k not in study.tools}
    for policy in arm.plays(study):
        tasks = [each for each in course.tasks if not journal.has(arm.name, policy, each.id)]
        if not tasks:
            continue
        say(f"  {arm.name}, {policy}: {len(tasks)} tasks")
        offer = Offer(
            tools,
            course.tools,
            study.price_spread,
            always=(study.pool.tool,),
            policies=(policy,),
            withheld=course.withheld,
        )
        planned = plan(course.run_id, tasks, 1, offer)
        groups = [_of(arm, policy, group, course.run_id) for group in planned]

        def keep(rolled: Rolled, policy: str = policy) -> None:
            journal.add(arm.name, policy, _evaluated(rolled))

        at_once = RULES_AT_ONCE if arm.rule else MODELS_AT_ONCE
        await Roller(gateway, limits, course.run_id).roll(groups, at_once, keep)


def _of(arm: Arm, policy: str, group: Group, run_id: str) -> Group:
    """The same tools for every arm and policy; ids of its own, or it would be the same episode."""
    rollout = Rollout(derived_uuid7(run_id, arm.name, policy, group.task.id), 0)
    group_id = derived_uuid7(run_id, arm.name, policy, group.task.id, "group")
    return replace(group, id=group_id, rollouts=(rollout,))


@asynccontextmanager
async def _platform(model_dir: Path | None) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-bench-")))
        # All are priced as the trained one: who orchestrates is to make the difference.
        engine = EngineChoice(model_dir, model=TRAINED_NAME if model_dir else "")
        say(f"starting the platform: {model_dir.name if model_dir else 'the bundled policy'}")
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

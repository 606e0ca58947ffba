"""Verified episodes of tasks of training, from which competence is learnt before it is measured."""

from collections.abc import Sequence

from bench.figures import say
from bench.orchestrators.study import Study, renamed
from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_kit.client.gateway import Gateway
from podium_kit.models.rules import RANDOM
from podium_training.rollouts import Offer, RolloutLimits, plan
from podium_training.rollouts.rolling import Roller, known_tools
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import generate

TASKS, AT_ONCE = 400, 16
# Policies that are compared give no consent: what they play teaches nothing.
POLICY = policy_pb2.PolicySpec(
    name="bench-practice",
    preset=policy_pb2.POLICY_PRESET_BALANCED,
    unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_ADMIT,
    training_consent=True,
)


def practice_tasks(study: Study, seed: int, families: Sequence[str]) -> list[Task]:
    return renamed(generate(TASKS, Split.TRAIN, seed, families), study)


async def practise(
    gateway: Gateway, run_id: str, study: Study, seed: int, families: Sequence[str]
) -> None:
    """Asks experts by chance."""
    created = policy_service_pb2.CreatePolicyRequest(spec=POLICY)
    await gateway.post("/v1/policies", created, policy_service_pb2.CreatePolicyResponse)
    known = await known_tools(gateway, [POLICY.name])
    tools = {name: skus for name, skus in known.items() if name not in study.tools}
    tasks = practice_tasks(study, seed, families)
    offer = Offer(tools, 1, always=(study.pool.tool,), policies=(POLICY.name,))
    say(f"  practice: {len(tasks)} tasks")
    limits = RolloutLimits(RANDOM, 2, 600.0, 0.0)
    await Roller(gateway, limits, run_id).roll(
        plan(run_id, tasks, 1, offer), AT_ONCE, lambda _rolled: None
    )

"""The stages that a cycle of learning has recorded on the platform, from which it continues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import uuid_utils

from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_training.rollouts.rolling import retried

ENDS = (
    policy_pb2.LEARNING_STAGE_PROMOTED,
    policy_pb2.LEARNING_STAGE_KEPT,
    policy_pb2.LEARNING_STAGE_ROLLED_BACK,
)
PATH = "/v1/learning-steps"


async def learning_steps(gateway: Gateway, policy: str) -> Sequence[policy_pb2.LearningStep]:
    """The steps of all cycles, newest first."""
    found = await gateway.all(PATH, policy_service_pb2.ListLearningStepsResponse, policy=policy)
    return found.steps


def last_promotion(steps: Sequence[policy_pb2.LearningStep]) -> policy_pb2.LearningStep | None:
    """The promotion in force, of steps from the newest on; None after a rollback."""
    serving = (policy_pb2.LEARNING_STAGE_PROMOTED, policy_pb2.LEARNING_STAGE_ROLLED_BACK)
    last = next((step for step in steps if step.stage in serving), None)
    is_promoted = last is not None and last.stage == policy_pb2.LEARNING_STAGE_PROMOTED
    return last if is_promoted else None


async def roll_back(gateway: Gateway, policy: str) -> policy_pb2.LearningStep:
    """Gives a policy's users what answered before its last promotion. Raises UsageError."""
    last = last_promotion(await learning_steps(gateway, policy))
    if last is None:
        cause = f"policy {policy} has no promotion that could be rolled back"
        raise UsageError(cause, f"see `podium train cycles {policy}`")
    before = last.facts["before"]
    journal = LearningJournal(gateway, policy, last.cycle)
    words = f"{before or 'the default model'} answers policy {policy} again, not {last.model}"
    return await journal.record(policy_pb2.LEARNING_STAGE_ROLLED_BACK, words, before)


@dataclass
class LearningJournal:
    gateway: Gateway
    policy: str
    cycle: str
    steps: "dict[policy_pb2.LearningStage.ValueType, policy_pb2.LearningStep]" = field(
        default_factory=dict
    )

    @classmethod
    async def open(cls, gateway: Gateway, policy: str) -> "LearningJournal":
        """Continues the newest cycle, or begins another one where that has ended."""
        steps = await learning_steps(gateway, policy)
        cycle = steps[0].cycle if steps else ""
        recorded = {step.stage: step for step in steps if step.cycle == cycle}
        if not recorded or any(stage in recorded for stage in ENDS):
            return cls(gateway, policy, str(uuid_utils.uuid7()))
        return cls(gateway, policy, cycle, recorded)

    async def record(
        self,
        stage: policy_pb2.LearningStage.ValueType,
        summary: str,
        model: str = "",
        facts: Mapping[str, str] | None = None,
    ) -> policy_pb2.LearningStep:
        """Raises Rejected, Unreachable."""
        step = policy_pb2.LearningStep(
            policy=self.policy,
            cycle=self.cycle,
            stage=stage,
            model=model,
            summary=summary[:1000],
            facts=facts,
        )
        request = policy_service_pb2.RecordLearningStepRequest(step=step)
        kind = policy_service_pb2.RecordLearningStepResponse
        recorded = (await retried(self.gateway.post, PATH, request, kind)).step
        self.steps[stage] = recorded
        return recorded

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_evaluation.environments.programs import EnvironmentFailed
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_kit.derived_ids import derived_uuid7
from podium_kit.money import Money
from podium_kit.wire import optional_money_from_proto
from podium_training.rollouts.rolling import retried

PATH, OTHER_CALL = "/v1/direct-calls", "DIRECT_CALL_CONFLICT"
ATTEMPTS_MAX, PAUSE_S = 3, 1.0
# They left no trace at a provider.
NOT_MADE = (
    failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED,
    failure_pb2.FAILURE_KIND_DENIED_BY_POLICY,
)


class Diverged(EnvironmentFailed):
    """The environment does not repeat what was recorded of the conversation."""

    def __init__(self, how: str) -> None:
        super().__init__(f"diverged: {how}")


@dataclass
class AskedModel:
    """A model that plays the user of a conversation, or judges it.

    It is a tool of kind llm, so its price, key and provider are the platform's. The ids of its
    calls follow from the episode's: after a kill the same question finds the same answer, and is
    charged once. The label `agent` puts the calls under the run's budget.
    """

    gateway: Gateway
    episode_id: str
    who: str
    name: str
    """The tool, and after a slash one of its models."""
    labels: Mapping[str, str]
    cost: Money | None = None
    """Known cost so far; None before the first call."""
    unpriced_call_count: int = 0
    budget_spent: bool = False
    barred: str = ""
    """Why it may not be asked; unset for one that may."""
    asked: int = field(default=0, init=False)

    async def answer(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Raises EnvironmentFailed, Rejected, Unreachable."""
        place, why = self.asked, ""
        self.asked += 1
        if self.barred:
            raise EnvironmentFailed(self.barred)
        for attempt in range(ATTEMPTS_MAX):
            id = derived_uuid7(self.episode_id, self.who, self.name, str(place), str(attempt))
            call = await self._ended(id, messages)
            self._note(call)
            if call.content.strip():
                return call.content
            why = call.failure.message or f"it wrote nothing ({call.finish_reason})"
            self.budget_spent = call.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
            if call.failure.kind in NOT_MADE:
                break
            await asyncio.sleep(PAUSE_S)
        raise EnvironmentFailed(f"the {self.who} model {self.name} gave no answer: {why}")

    async def _ended(self, id: str, messages: Sequence[Mapping[str, Any]]) -> pb.DirectCall:
        tool, _, alias = self.name.partition("/")
        spec = pb.DirectCallSpec(
            tool_name=tool,
            model_alias=alias,
            messages=[orchestrator_pb.ConversationMessage(**message) for message in messages],
            sampling=orchestrator_pb.Sampling(temperature=0),
            labels=self.labels,
        )
        request = pb.StartDirectCallRequest(call_id=id, spec=spec)
        try:
            started = await retried(self.gateway.post, PATH, request, pb.StartDirectCallResponse)
        except Rejected as error:
            if error.reason != OTHER_CALL:
                raise
            raise Diverged(f"the {self.who} model is asked something else than before") from error
        call = started.call
        while not call.ended:
            # Answered when the call ends, or after half a minute.
            reply = pb.GetDirectCallResponse
            call = (await retried(self.gateway.get, f"{PATH}/{id}", reply, wait="true")).call
        return call

    def _note(self, call: pb.DirectCall) -> None:
        cost = optional_money_from_proto(call.cost)
        if cost is not None:
            self.cost = cost if self.cost is None else self.cost + cost
        elif call.failure.kind not in NOT_MADE:
            self.unpriced_call_count += 1

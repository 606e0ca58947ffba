from decimal import Decimal
from typing import Any

import pytest

from episodes.clients import Ledger, OperationResults, Operations
from episodes.keys import StepKind
from episodes.models import Step
from episodes.spending.holds import KEY_REUSED, Charges, GrantedHold
from episodes.spending.worst_case import hold_request, token_worst_case
from episodes.step_log.log import StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode
from episodes.step_log.settlements import Settlements
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.errors import AlreadyExists
from unit.episodes.stored_episodes import ID, stored_episode

COVERED_TOKENS = 100


class OneAnswerLedger(Ledger):
    def __init__(self) -> None:
        self.asked: dict[str, pb.ReserveRequest] = {}
        self.holds: dict[str, hold_pb2.Hold] = {}
        self.captured: list[str] = []

    async def apply(self, operations: Operations) -> OperationResults:
        for operation in operations:
            request = operation.reserve
            if self.asked.get(request.key, request) != request:
                raise AlreadyExists(f"reserve {request.key} was answered", reason=KEY_REUSED)
        return [self._applied(operation) for operation in operations]

    def _applied(self, operation: pb.Operation) -> pb.OperationResult:
        if operation.HasField("capture"):
            self.captured.append(operation.capture.key)
            return pb.OperationResult(capture=pb.CaptureResponse())
        if operation.HasField("mark_dispatched"):
            hold = self.holds[operation.mark_dispatched.key]
            return pb.OperationResult(mark_dispatched=pb.MarkDispatchedResponse(hold=hold))
        request = operation.reserve
        self.asked[request.key] = request
        hold = hold_pb2.Hold(key=request.key, state=hold_pb2.HOLD_STATE_OPEN, sku=request.sku)
        for quantity in request.worst_case:
            covered = min(Decimal(quantity.amount), Decimal(COVERED_TOKENS))
            hold.worst_case.add(dimension=quantity.dimension, amount=str(covered))
        self.holds[request.key] = hold
        return pb.OperationResult(reserve=pb.ReserveResponse(hold=hold))


@pytest.fixture
def episode() -> RunningEpisode:
    spec = episode_pb2.EpisodeSpec(task="add")
    return RunningEpisode(stored_episode(), spec, toolset_pb2.Toolset())


@pytest.fixture
def unsettled() -> StepLog:
    usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_PROVIDER)
    call = trajectory_pb2.ModelCall(response=orchestrator_pb.NextActionResponse(usage=usage))
    log = StepLog(ID)
    log.add([Step(ID, 1, 1, StepKind.MODEL, 0, call.SerializeToString())])
    return log


async def test_a_sku_that_is_renamed_between_two_attempts_fails_no_call(
    episode: RunningEpisode, unsettled: StepLog
) -> None:
    nowhere: Any = None
    ledger = OneAnswerLedger()
    charges = Charges(ledger, StepLogs(nowhere, Settlements(nowhere)))
    key, worst_case = f"{ID}/2/model/0", token_worst_case(9, 500)
    first = hold_request(key, "default", "default", "m/old", worst_case, turn=2)
    asked_again = hold_request(key, "default", "newer", "m/new", worst_case, turn=2)
    covered = GrantedHold(output_tokens=COVERED_TOKENS)
    assert await charges.settle_and_reserve(episode, StepLog(ID), [first]) == [covered]
    assert await charges.settle_and_reserve(episode, unsettled, [asked_again]) == [covered]
    assert ledger.holds[first.key].sku == "m/old"
    assert ledger.captured == [f"{ID}/1/model/0"] and not unsettled.unsettled()


async def test_a_hold_that_has_ended_pays_for_no_call(episode: RunningEpisode) -> None:
    nowhere: Any = None
    ledger = OneAnswerLedger()
    charges = Charges(ledger, StepLogs(nowhere, Settlements(nowhere)))
    key, worst_case = f"{ID}/1/model/0", token_worst_case(9, 500)
    first = hold_request(key, "default", "default", "m/old", worst_case, turn=1)
    await charges.settle_and_reserve(episode, StepLog(ID), [first])
    ledger.holds[first.key].state = hold_pb2.HOLD_STATE_RELEASED
    renamed = hold_request(key, "default", "default", "m/new", worst_case, turn=1)
    with pytest.raises(AlreadyExists):
        await charges.settle_and_reserve(episode, StepLog(ID), [renamed])

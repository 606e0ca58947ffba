from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from episodes.clients import OperationResults, Operations
from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.executor import DirectCallMaker
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.money import Money
from podium_kit.rpc.errors import DependencyAway, DomainError, NotFound

CALL = StoredCall(
    id="01900000-0000-7000-8000-000000000001",
    tenant="acme",
    subject="ada",
    spec=pb.DirectCallSpec(tool_name="sums", arguments_json="{}").SerializeToString(),
    toolset=toolset_pb2.Toolset(
        tools=[toolset_pb2.ResolvedTool(name="sums", version=1, kind=tool_pb2.TOOL_KIND_HTTP)]
    ).SerializeToString(),
    create_time=datetime.now(UTC),
)


class Platform:
    def __init__(self, error: DomainError) -> None:
        self.call = CALL
        self.open: set[str] = set()
        self._error = error

    async def apply(self, operations: Operations) -> OperationResults:
        [operation] = operations
        if operation.HasField("reserve"):
            self.open.add(operation.reserve.key)
            held = ledger_pb.ReserveResponse(hold=hold_pb2.Hold(key=operation.reserve.key))
            return [ledger_pb.OperationResult(reserve=held)]
        self.open.remove(operation.release.key)
        return [ledger_pb.OperationResult()]

    async def invoke(self, *_: object) -> adapters_pb.InvokeResponse:
        raise self._error

    async def load(self, *_: object) -> list[object]:
        return []

    async def answered(self, _: str, answer: bytes) -> StoredCall:
        self.call = replace(self.call, answer=answer)
        return self.call

    async def ended(self, _: str, cost: Money | None) -> None:
        self.call = replace(self.call, cost=cost, ended=True)


async def test_a_call_that_is_rejected_gives_its_hold_back() -> None:
    platform: Any = Platform(NotFound("there is no version 1 of sums; name another tool"))
    await DirectCallMaker(platform, platform, platform, platform).make(CALL)
    failure = adapters_pb.InvokeResponse.FromString(platform.call.answer).failure
    assert failure.message == "there is no version 1 of sums; name another tool"
    assert platform.call.ended and platform.call.cost == Money.zero("USD")
    assert not platform.open


async def test_a_call_waits_for_adapters_that_are_away() -> None:
    platform: Any = Platform(DependencyAway())
    with pytest.raises(DependencyAway):
        await DirectCallMaker(platform, platform, platform, platform).make(CALL)
    assert platform.open and platform.call == CALL

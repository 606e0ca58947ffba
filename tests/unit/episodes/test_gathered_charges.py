import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from episodes.clients import Ledger
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as rpc
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.rpc.identity import Identity, Scope, acting_as

INVALID = "invalid"


class SlowLedger(rpc.CostLedgerServiceServicer):
    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.gate = asyncio.Event()

    async def Apply(
        self,
        request: pb.ApplyRequest,
        context: grpc.aio.ServicerContext[pb.ApplyRequest, pb.ApplyResponse],
    ) -> pb.ApplyResponse:
        keys = [operation.release.key for operation in request.operations]
        self.requests.append(keys)
        await self.gate.wait()
        if INVALID in keys:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such key")
        results = [pb.OperationResult() for _ in keys]
        for result, key in zip(results, keys, strict=True):
            result.release.hold.key = key
        return pb.ApplyResponse(results=results)


@pytest_asyncio.fixture
async def ledger() -> AsyncIterator[tuple[SlowLedger, Ledger]]:
    server = grpc.aio.server()
    slow = SlowLedger()  # type: ignore[abstract]
    rpc.add_CostLedgerServiceServicer_to_server(slow, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield slow, Ledger(channel)
    await server.stop(None)


def operations(*keys: str) -> list[pb.Operation]:
    return [pb.Operation(release=pb.ReleaseRequest(key=key)) for key in keys]


async def apply_as(ledger: Ledger, subject: str, *keys: str) -> list[str]:
    with acting_as(Identity("acme", subject, frozenset({Scope.LEDGER_WRITE}))):
        results = await ledger.apply(operations(*keys))
    return [result.release.hold.key for result in results]


async def test_one_request_is_in_flight_and_the_rest_gathers_for_each_identity(
    ledger: tuple[SlowLedger, Ledger],
) -> None:
    slow, client = ledger
    first = [asyncio.create_task(apply_as(client, *each)) for each in (("ann", "1"), ("bob", "5"))]
    while len(slow.requests) < 2:
        await asyncio.sleep(0.01)
    later = (("ann", "2", "3"), ("ann", "4"), ("bob", "6"))
    rest = [asyncio.create_task(apply_as(client, *each)) for each in later]
    await asyncio.sleep(0)
    slow.gate.set()
    assert await asyncio.gather(*first, *rest) == [["1"], ["5"], ["2", "3"], ["4"], ["6"]]
    assert sorted(slow.requests) == [["1"], ["2", "3", "4"], ["5"], ["6"]]


async def test_an_invalid_operation_fails_alone(ledger: tuple[SlowLedger, Ledger]) -> None:
    slow, client = ledger
    keys = ("1", "2", INVALID, "3")
    running = [asyncio.create_task(apply_as(client, "ann", key)) for key in keys]
    while not slow.requests:
        await asyncio.sleep(0.01)
    slow.gate.set()
    one, two, invalid, three = await asyncio.gather(*running, return_exceptions=True)
    assert (one, two, three) == (["1"], ["2"], ["3"])
    assert isinstance(invalid, InvalidArgument)


async def test_an_episode_that_gives_up_stops_nobody_else(
    ledger: tuple[SlowLedger, Ledger],
) -> None:
    slow, client = ledger
    first = asyncio.create_task(apply_as(client, "ann", "1"))
    second = asyncio.create_task(apply_as(client, "ann", "2"))
    while not slow.requests:
        await asyncio.sleep(0.01)
    first.cancel()
    slow.gate.set()
    assert await second == ["2"]
    with pytest.raises(asyncio.CancelledError):
        await first

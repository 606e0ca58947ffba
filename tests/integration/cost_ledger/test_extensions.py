"""A hold that is extended counts in the windows of now, or stays as it is."""

from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_reserve,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.sql_access import set_clock
from integration.cost_ledger.verified import findings_of, rejection_of
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

ROLLING = {
    "window": budgets_pb.BUDGET_WINDOW_ROLLING,
    "rolling_length": timedelta(hours=1),
}


def extension(output_text: int, key: str = "x") -> pb.ExtendRequest:
    worst_case = quantities(input_fresh=1000, output_text=output_text)
    return pb.ExtendRequest(key=key, hold_key="k", worst_case=worst_case)


async def open_budget(admin: Client, limit: str, **fields: object) -> None:
    request = budgets_pb.CreateBudgetRequest(budget=make_budget("cap", limit, **fields))
    await admin.budgets.CreateBudget(request)


async def held(client: Client) -> object:
    reply = await client.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))
    return reply.status.held


async def test_an_extension_beyond_the_budget_says_what_fits_and_leaves_the_hold(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "0.02")
    before = (await worker.ledger.Reserve(make_reserve("k"))).hold
    rejection = (await worker.ledger.Extend(extension(2000))).rejection
    assert (rejection.budget_id, rejection.fitting_output_tokens) == ("cap", 1875)
    assert await held(worker) == before.amount == usd("0.01125")
    assert (await worker.ledger.Extend(extension(1875, "fits"))).hold.amount == usd("0.02")


async def test_a_rejected_extension_is_rejected_again_whatever_is_left_by_then(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "0.02")
    await worker.ledger.Reserve(make_reserve("other"))
    await worker.ledger.Reserve(make_reserve("k", worst_case=quantities(output_text=100)))
    rejected = await worker.ledger.Extend(extension(1000))
    await worker.ledger.Release(pb.ReleaseRequest(key="other"))
    assert await worker.ledger.Extend(extension(1000)) == rejected
    assert (await worker.ledger.Extend(extension(1000, "y"))).HasField("hold")


async def test_a_repeated_extension_is_made_once_and_with_other_content_rejected(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "1")
    await worker.ledger.Reserve(make_reserve("k"))
    first = await worker.ledger.Extend(extension(2000))
    assert await worker.ledger.Extend(extension(2000)) == first
    assert await held(worker) == usd("0.02125")
    other = worker.ledger.Extend(extension(3000))
    assert "other content" in await rejection_of(other, grpc.StatusCode.ALREADY_EXISTS)
    listing = pb.ListEntriesRequest(kinds=[hold_pb2.ENTRY_KIND_EXTEND])
    assert len((await worker.ledger.ListEntries(listing)).entries) == 1


async def test_only_an_open_hold_can_be_extended(worker: Client) -> None:
    unknown = worker.ledger.Extend(extension(10))
    assert "no money is held" in await rejection_of(unknown, grpc.StatusCode.NOT_FOUND)
    await worker.ledger.Reserve(make_reserve("k"))
    await worker.ledger.Capture(make_capture("k"))
    ended = worker.ledger.Extend(extension(10))
    assert "captured" in await rejection_of(ended, grpc.StatusCode.FAILED_PRECONDITION)


@pytest.mark.parametrize(
    "nothing",
    [
        pb.ExtendRequest(key="x", hold_key="k"),
        pb.ExtendRequest(key="x", hold_key="k", time_to_live=Duration(seconds=-1)),
        pb.ExtendRequest(key="x", hold_key="k", worst_case=quantities(output_text=-1)),
    ],
)
async def test_an_extension_that_cannot_be_understood_is_rejected(
    worker: Client, nothing: pb.ExtendRequest
) -> None:
    await worker.ledger.Reserve(make_reserve("k"))
    await rejection_of(worker.ledger.Extend(nothing), grpc.StatusCode.INVALID_ARGUMENT)


async def test_an_extension_leaves_the_window_it_was_made_in_and_the_books_agree(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await open_budget(admin, "0.03", **ROLLING)
    await worker.ledger.Reserve(make_reserve("k", time_to_live=timedelta(days=1)))
    await set_clock(ledger, "2 hours")
    assert await held(worker) == usd("0")
    await worker.ledger.Extend(extension(2000))
    assert await held(worker) == usd("0.02125")
    assert not await findings_of(worker)
    await worker.ledger.Capture(make_capture("k"))
    assert await held(worker) == usd("0")
    assert not await findings_of(worker)

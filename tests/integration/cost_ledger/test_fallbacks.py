from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from integration.cost_ledger.builders import (
    GPT5,
    make_budget,
    make_capture,
    make_price,
    make_reserve,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.verified import findings_of
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb

DEAR, CHEAP, UNKNOWN = "m/dear", "m/cheap", "m/unknown"
# A call of 1000 and 1000 tokens costs $0.01125 of GPT-5, $0.0225 of DEAR, $0.001125 of CHEAP.
DEAR_PRICE = {"input_fresh": ("2.5", "1000000"), "output_text": ("20", "1000000")}
CHEAP_PRICE = {"input_fresh": ("0.125", "1000000"), "output_text": ("1", "1000000")}


@pytest_asyncio.fixture(autouse=True)
async def prices(ledger: RunningLedger) -> None:
    specs = [make_price(DEAR, DEAR_PRICE), make_price(CHEAP, CHEAP_PRICE)]
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=specs))


def fallback(sku: str) -> hold_pb2.Fallback:
    return hold_pb2.Fallback(model=sku.removeprefix("m/"), sku=sku)


async def reserve(worker: Client, *skus: str, **fields: Any) -> pb.ReserveResponse:
    fallbacks = [fallback(sku) for sku in skus]
    return await worker.ledger.Reserve(make_reserve("k", fallbacks=fallbacks, **fields))


def answered_by(sku: str, key: str = "k") -> pb.CaptureRequest:
    capture: pb.CaptureRequest = make_capture(key)
    capture.answered_by.CopyFrom(fallback(sku))
    return capture


async def open_budget(admin: Client, limit: str) -> None:
    request = budgets_pb.CreateBudgetRequest(budget=make_budget("cap", limit))
    await admin.budgets.CreateBudget(request)


async def status(admin: Client) -> budgets_pb.BudgetStatus:
    return (await admin.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))).status


async def test_the_hold_covers_the_most_expensive_and_the_capture_has_the_price_of_who_answered(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "1")
    hold = (await reserve(worker, CHEAP, DEAR)).hold
    assert (hold.sku, hold.amount) == (GPT5, usd("0.0225"))
    assert list(hold.fallbacks) == [fallback(CHEAP), fallback(DEAR)]
    entry = (await worker.ledger.Capture(answered_by(CHEAP))).entry
    assert (entry.sku, entry.subject.model, entry.amount) == (CHEAP, "cheap", usd("0.000225"))
    assert entry.price_version_id not in ("", hold.price_version_id)
    after = await status(admin)
    assert (after.posted, after.held) == (usd("0.000225"), usd("0"))
    assert not await findings_of(worker)


async def test_the_requested_model_answers_at_its_own_price(worker: Client) -> None:
    hold = (await reserve(worker, DEAR)).hold
    entry = (await worker.ledger.Capture(make_capture("k"))).entry
    assert (entry.sku, entry.amount) == (GPT5, usd("0.00225"))
    assert entry.price_version_id == hold.price_version_id


async def test_a_fallback_answers_at_the_price_it_was_admitted_at(
    ledger: RunningLedger, worker: Client
) -> None:
    await reserve(worker, CHEAP)
    raised = make_price(CHEAP, DEAR_PRICE)
    raised.start_time.FromDatetime(datetime.now(UTC))
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[raised]))
    entry = (await worker.ledger.Capture(answered_by(CHEAP))).entry
    assert entry.amount == usd("0.000225")
    assert not await findings_of(worker)


async def test_a_fallback_that_the_budget_does_not_cover_is_left_out_and_stops_nothing(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "0.012")
    hold = (await reserve(worker, DEAR, CHEAP)).hold
    assert (list(hold.fallbacks), hold.amount) == ([fallback(CHEAP)], usd("0.01125"))


async def test_a_clamped_call_may_be_answered_by_what_covers_so_many_tokens(
    worker: Client, admin: Client
) -> None:
    await open_budget(admin, "0.005")
    hold = (await reserve(worker, DEAR, CHEAP, min_output_tokens=1)).hold
    assert list(hold.worst_case) == quantities(input_fresh=1000, output_text=375)
    assert (list(hold.fallbacks), hold.amount) == ([fallback(CHEAP)], usd("0.005"))


async def test_a_fallback_in_another_currency_is_left_out(
    ledger: RunningLedger, worker: Client
) -> None:
    euros = make_price("m/euro", CHEAP_PRICE, currency_code="EUR")
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[euros]))
    assert list((await reserve(worker, "m/euro", CHEAP)).hold.fallbacks) == [fallback(CHEAP)]


@pytest.mark.parametrize(
    ("policy", "kept", "amount"),
    [
        (hold_pb2.UNKNOWN_PRICE_POLICY_REJECT, [], "0.01125"),
        (hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING, [UNKNOWN], "0.05"),
        (hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT, [UNKNOWN], "0.01125"),
    ],
)
async def test_the_policy_decides_on_each_fallback_of_unknown_price(
    worker: Client, policy: Any, kept: list[str], amount: str
) -> None:
    hold = (await reserve(worker, UNKNOWN, unknown_price=policy, ceiling=usd("0.05"))).hold
    assert list(hold.fallbacks) == [fallback(sku) for sku in kept]
    assert hold.amount == usd(amount)


async def test_an_answer_of_unknown_price_is_in_suspense_and_never_zero(worker: Client) -> None:
    await reserve(worker, UNKNOWN, unknown_price=hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT)
    entry = (await worker.ledger.Capture(answered_by(UNKNOWN))).entry
    assert (entry.sku, entry.HasField("amount")) == (UNKNOWN, False)
    assert not await findings_of(worker)


async def test_the_actual_cost_is_posted_also_of_a_model_without_a_reservation(
    worker: Client,
) -> None:
    await reserve(worker)
    entry = (await worker.ledger.Capture(answered_by(DEAR))).entry
    assert (entry.sku, entry.amount) == (DEAR, usd("0.0045"))


async def test_a_settled_estimate_stays_the_answer_of_the_model_that_gave_it(
    worker: Client,
    admin: Client,
) -> None:
    await reserve(worker, DEAR)
    guess = answered_by(DEAR)
    guess.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    await worker.ledger.Capture(guess)
    truth = pb.SettleRequest(key="k", usage=make_usage(input_fresh=1000, output_text=200))
    entry = (await admin.ledger.Settle(truth)).entry
    assert (entry.sku, entry.subject.model, entry.amount) == (DEAR, "dear", usd("0.0065"))
    assert not await findings_of(worker)


async def test_a_retry_gets_the_same_fallbacks_and_other_ones_are_another_request(
    worker: Client,
) -> None:
    first = await reserve(worker, DEAR, CHEAP)
    await worker.ledger.Capture(answered_by(CHEAP))
    assert await reserve(worker, DEAR, CHEAP) == first
    with pytest.raises(Exception, match="already answered with other content"):
        await reserve(worker, DEAR)
    with pytest.raises(Exception, match="already answered with other content"):
        await worker.ledger.Capture(answered_by(DEAR))


@pytest.mark.parametrize(
    "fallbacks",
    [
        [hold_pb2.Fallback(sku=CHEAP)],
        [fallback(CHEAP)] * 2,
        [fallback(f"m/{n}") for n in range(21)],
    ],
)
async def test_fallbacks_that_cannot_be_understood_are_rejected(
    worker: Client, fallbacks: list[hold_pb2.Fallback]
) -> None:
    with pytest.raises(Exception, match="fallbacks"):
        await worker.ledger.Reserve(make_reserve("k", fallbacks=fallbacks))

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import pytest_asyncio

from cost_ledger.journal import service
from integration.cost_ledger.builders import (
    GPT5,
    GPT5_COMPONENTS,
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, findings_of
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb


async def test_a_hold_is_the_worst_case_at_the_effective_price(worker: Client) -> None:
    hold = (await worker.ledger.Reserve(make_reserve("k"))).hold
    assert (hold.key, hold.state) == ("k", hold_pb2.HOLD_STATE_OPEN)
    assert hold.amount == usd("0.01125")
    assert hold.subject.user == "ada"


async def test_a_capture_posts_the_actual_cost_and_releases_the_rest(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await worker.ledger.Reserve(make_reserve("k"))
    assert (await worker.status()).held == usd("0.01125")
    entry = (await worker.ledger.Capture(make_capture("k"))).entry
    assert entry.amount == usd("0.00225")
    status = await worker.status()
    assert (status.held, status.posted) == (usd("0"), usd("0.00225"))
    assert status.remaining == usd("0.99775")


async def test_a_capture_above_the_hold_posts_all_of_it(worker: Client, admin: Client) -> None:
    await admin.add_budget(limit="0.02")
    await worker.ledger.Reserve(make_reserve("k"))
    usage = make_usage(input_fresh=1000, output_text=5000)
    entry = (await worker.ledger.Capture(make_capture("k", usage))).entry
    assert entry.amount == usd("0.05125")
    status = await worker.status()
    assert (status.posted, status.remaining) == (usd("0.05125"), usd("0"))


async def test_a_reported_cost_is_charged_in_place_of_the_tokens_that_bound_the_hold(
    worker: Client, admin: Client
) -> None:
    price = make_price("own/router", GPT5_COMPONENTS | {"provider_cost": ("1", "1")})
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
    for key, cost in (("reported", {"provider_cost": "0.0009"}), ("silent", {})):
        hold = (await worker.ledger.Reserve(make_reserve(key, sku="own/router"))).hold
        assert hold.amount == usd("0.01125")
        usage = make_usage(input_fresh=1000, output_text=100, **cost)
        entry = (await worker.ledger.Capture(make_capture(key, usage))).entry
        assert entry.amount == usd(cost.get("provider_cost", "0.00225"))
        assert len(entry.usage.quantities) == 2 + len(cost)
    assert not await findings_of(worker)


async def test_a_model_with_a_price_per_call_is_held_for_and_charged_the_call(
    worker: Client, admin: Client
) -> None:
    price = make_price("own/rented", {"call": ("0.002", "1")})
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
    hold = (await worker.ledger.Reserve(make_reserve("k", sku="own/rented"))).hold
    entry = (await worker.ledger.Capture(make_capture("k"))).entry
    assert hold.amount == entry.amount == usd("0.002")
    assert not await findings_of(worker)


async def test_sequences_count_from_one_without_gaps(worker: Client) -> None:
    for key in ("a", "b"):
        await worker.ledger.Reserve(make_reserve(key))
        await worker.ledger.Capture(make_capture(key))
    await worker.ledger.Record(make_record("c"))
    kinds = [(entry.sequence, entry.kind) for entry in await worker.entries()]
    assert kinds == [
        (1, hold_pb2.ENTRY_KIND_RESERVE),
        (2, hold_pb2.ENTRY_KIND_CAPTURE),
        (3, hold_pb2.ENTRY_KIND_RESERVE),
        (4, hold_pb2.ENTRY_KIND_CAPTURE),
        (5, hold_pb2.ENTRY_KIND_RECORD),
    ]


async def test_a_retry_gets_the_first_answer(worker: Client) -> None:
    held = await worker.ledger.Reserve(make_reserve("k"))
    captured = await worker.ledger.Capture(make_capture("k"))
    assert await worker.ledger.Reserve(make_reserve("k")) == held
    assert await worker.ledger.Capture(make_capture("k")) == captured
    assert len(await worker.entries()) == 2


async def test_a_rejection_is_replayed_as_a_rejection(worker: Client, admin: Client) -> None:
    await admin.add_budget(limit="0.001")
    first = await worker.ledger.Reserve(make_reserve("k"))
    assert first.HasField("rejection")
    await admin.budgets.CloseBudget(budgets_pb.CloseBudgetRequest(id="cap"))
    assert await worker.ledger.Reserve(make_reserve("k")) == first
    assert (await worker.ledger.Reserve(make_reserve("other"))).HasField("hold")


async def test_a_key_reused_with_other_content_changes_nothing(worker: Client) -> None:
    await worker.ledger.Reserve(make_reserve("k"))
    await worker.ledger.Capture(make_capture("k"))
    before = await worker.entries()
    other = quantities(input_fresh=1)
    for call in (
        worker.ledger.Reserve(make_reserve("k", worst_case=other)),
        worker.ledger.Capture(make_capture("k", make_usage(input_fresh=1))),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await call
        assert rejected.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert await worker.entries() == before


async def test_a_capture_without_a_hold_names_the_key(worker: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Capture(make_capture("never-held"))
    assert rejected.value.code() is grpc.StatusCode.NOT_FOUND
    assert "never-held" in str(rejected.value.details())


async def test_a_released_hold_gives_the_money_back_once(worker: Client, admin: Client) -> None:
    await admin.add_budget()
    await worker.ledger.Reserve(make_reserve("k"))
    first = await worker.ledger.Release(pb.ReleaseRequest(key="k"))
    assert first.hold.state == hold_pb2.HOLD_STATE_RELEASED
    assert await worker.ledger.Release(pb.ReleaseRequest(key="k")) == first
    assert (await worker.status()).held == usd("0")
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Capture(make_capture("k"))
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_captured_hold_cannot_be_released(worker: Client) -> None:
    await worker.ledger.Reserve(make_reserve("k"))
    await worker.ledger.Capture(make_capture("k"))
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Release(pb.ReleaseRequest(key="k"))
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_releasing_an_episode_leaves_other_episodes_and_captured_calls(
    worker: Client,
) -> None:
    for key, episode in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "one")):
        await worker.ledger.Reserve(make_reserve(key, subject={"episode_id": episode}))
    await worker.ledger.Capture(make_capture("b"))
    released = await worker.ledger.ReleaseEpisode(pb.ReleaseEpisodeRequest(episode_id="one"))
    assert [hold.key for hold in released.holds] == ["a", "d"]
    again = await worker.ledger.ReleaseEpisode(pb.ReleaseEpisodeRequest(episode_id="one"))
    assert not again.holds
    assert (await worker.ledger.Capture(make_capture("c"))).entry.amount == usd("0.00225")


async def test_an_episodes_calls_that_may_have_been_made_keep_their_holds_if_asked(
    worker: Client,
) -> None:
    of_one = {"subject": {"episode_id": "one"}}
    await worker.ledger.Reserve(make_reserve("begun", **of_one, dispatched=True))
    await worker.ledger.Reserve(make_reserve("planned", **of_one))
    asked = pb.ReleaseEpisodeRequest(episode_id="one", keep_dispatched=True)
    ended = await worker.ledger.ReleaseEpisode(asked)
    assert [hold.key for hold in ended.holds] == ["planned"]
    assert list(ended.kept_keys) == ["begun"]
    await worker.ledger.Capture(make_capture("begun"))
    assert not (await worker.ledger.ReleaseEpisode(asked)).kept_keys


async def test_one_batch_captures_the_last_call_and_reserves_the_next(worker: Client) -> None:
    await worker.ledger.Reserve(make_reserve("k1"))
    operations = [
        pb.Operation(capture=make_capture("k1")),
        pb.Operation(reserve=make_reserve("k2")),
        pb.Operation(capture=make_capture("k2")),
        pb.Operation(record=make_record("k3")),
        pb.Operation(reserve=make_reserve("k4")),
        pb.Operation(release=pb.ReleaseRequest(key="k4")),
    ]
    answer = await worker.ledger.Apply(pb.ApplyRequest(operations=operations))
    kinds = [result.WhichOneof("result") for result in answer.results]
    assert kinds == ["capture", "reserve", "capture", "record", "reserve", "release"]
    assert await worker.ledger.Apply(pb.ApplyRequest(operations=operations)) == answer


async def test_a_batch_with_a_bad_operation_writes_none_of_it(worker: Client) -> None:
    operations = [
        pb.Operation(reserve=make_reserve("k1")),
        pb.Operation(capture=make_capture("never-held")),
    ]
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Apply(pb.ApplyRequest(operations=operations))
    assert rejected.value.code() is grpc.StatusCode.NOT_FOUND
    assert await worker.entries() == []


async def test_a_rejected_reserve_does_not_stop_its_batch(worker: Client, admin: Client) -> None:
    await admin.add_budget(limit="0.012")
    operations = [pb.Operation(reserve=make_reserve(key)) for key in ("a", "b")]
    operations.append(pb.Operation(capture=make_capture("a")))
    results = (await worker.ledger.Apply(pb.ApplyRequest(operations=operations))).results
    assert results[0].reserve.HasField("hold")
    assert results[1].reserve.HasField("rejection")
    assert results[2].capture.entry.amount == usd("0.00225")


async def test_of_unusable_figures_the_worst_case_is_posted_until_the_truth_is_known(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await worker.ledger.Reserve(make_reserve("k"))
    reason = "the provider reported 1.00000e+17 as prompt_tokens"
    usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_PROVIDER, unusable_reason=reason)
    request = pb.CaptureRequest(key="k", usage=usage)
    entry = (await worker.ledger.Capture(request)).entry
    assert {posting.account for posting in entry.postings} >= {"provisional"}
    assert (await worker.ledger.Capture(request)).entry == entry
    status = await worker.status()
    assert (status.held, status.posted) == (usd("0"), usd("0.01125"))
    await worker.ledger.Capture(make_capture("k"))
    status = await worker.status()
    assert (status.held, status.posted) == (usd("0"), usd("0.00225"))


async def test_calls_that_are_cut_off_again_and_again_exhaust_a_budget(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.05")
    cut = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_ESTIMATED, unusable_reason="cut off")
    for number in range(4):
        assert (await worker.ledger.Reserve(make_reserve(f"k{number}"))).HasField("hold")
        await worker.ledger.Capture(pb.CaptureRequest(key=f"k{number}", usage=cut))
    rejection = (await worker.ledger.Reserve(make_reserve("k4"))).rejection
    assert rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED
    assert (await worker.status()).posted == usd("0.045")


async def test_unpriced_calls_are_counted_by_what_is_unknown(
    worker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[int, dict[str, str]]] = []
    counter = SimpleNamespace(add=lambda count, labels: counted.append((count, labels)))
    monkeypatch.setattr(service, "_unpriced", counter)
    usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_PROVIDER, unusable_reason="cut off")
    await worker.ledger.Record(make_record("cut", usage=usage))
    await worker.ledger.Record(make_record("new", sku="own/new"))
    assert counted == [
        (1, {"podium.sku": GPT5, "podium.unknown": "usage"}),
        (1, {"podium.sku": "own/new", "podium.unknown": "price"}),
    ]


async def test_a_cost_above_any_amount_is_posted_without_a_price(
    worker: Client, admin: Client
) -> None:
    price = make_price("own/gold", {"output_text": ("999999999999", "1")})
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
    await worker.ledger.Reserve(
        make_reserve("k", sku="own/gold", worst_case=quantities(output_text=1))
    )
    usage = make_usage(output_text=10**12)
    entry = (await worker.ledger.Capture(make_capture("k", usage=usage))).entry
    assert not entry.HasField("amount")
    assert entry.usage.quantities[0].amount == "1000000000000"


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
    return await admin.status()


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

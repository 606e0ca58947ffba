import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from embedded_servers import Database
from integration.cost_ledger.builders import (
    GPT5,
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_subject,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, code_of, running_ledger
from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope

PEOPLE = {"team": "red", "user": "bob", "agent": "bot", "episode_id": "e1"}


async def test_a_rejection_names_the_budget_and_what_fits(worker: Client, admin: Client) -> None:
    await admin.add_budget(limit="0.005")
    rejection = (await worker.ledger.Reserve(make_reserve("k"))).rejection
    assert rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED
    assert (rejection.budget_id, rejection.remaining) == ("cap", usd("0.005"))
    # 0.005 less 0.00125 for the input leaves 0.00375 at 10 per million.
    assert rejection.fitting_output_tokens == 375
    clamped = quantities(input_fresh=1000, output_text=375)
    assert (await worker.ledger.Reserve(make_reserve("k2", worst_case=clamped))).HasField("hold")


async def test_a_rejection_whose_input_does_not_fit_offers_no_output(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.001")
    rejection = (await worker.ledger.Reserve(make_reserve("k"))).rejection
    assert not rejection.HasField("fitting_output_tokens")


@pytest.mark.parametrize(
    ("scope", "scope_id", "other"),
    [
        (pb.BUDGET_SCOPE_TEAM, "red", {"team": "blue"}),
        (pb.BUDGET_SCOPE_USER, "bob", {"user": "eve"}),
        (pb.BUDGET_SCOPE_AGENT, "bot", {"agent": ""}),
        (pb.BUDGET_SCOPE_EPISODE, "e1", {"episode_id": "e2"}),
    ],
)
async def test_a_budget_covers_its_own_scope_only(
    worker: Client, admin: Client, scope: int, scope_id: str, other: dict[str, str]
) -> None:
    await admin.add_budget(limit="0", scope=scope, scope_id=scope_id)
    inside = await worker.ledger.Reserve(make_reserve("in", subject=make_subject(**PEOPLE)))
    outside = make_subject(**PEOPLE | other)
    assert inside.rejection.budget_id == "cap"
    assert (await worker.ledger.Reserve(make_reserve("out", subject=outside))).HasField("hold")


async def test_the_tightest_of_several_budgets_rejects_and_none_is_charged(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget("wide", "5")
    await admin.add_budget("narrow", "0.01", scope=pb.BUDGET_SCOPE_EPISODE, scope_id="episode-1")
    await admin.add_budget("narrower", "0.002", scope=pb.BUDGET_SCOPE_USER, scope_id="ada")
    rejection = (await worker.ledger.Reserve(make_reserve("k"))).rejection
    assert rejection.budget_id == "narrower"
    assert (await worker.status("wide")).held == usd("0")


async def test_a_named_budget_covers_only_calls_that_name_it(worker: Client, admin: Client) -> None:
    await admin.add_budget("project", "0.02", scope=pb.BUDGET_SCOPE_NAMED)
    await worker.ledger.Reserve(make_reserve("unnamed"))
    await worker.ledger.Reserve(make_reserve("named", budget_ids=["project"]))
    assert (await worker.status("project")).held == usd("0.01125")


async def test_naming_a_budget_that_is_not_there_is_an_error_not_no_limit(worker: Client) -> None:
    call = worker.ledger.Reserve(make_reserve("k", budget_ids=["gone"]))
    assert await code_of(call) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        (pb.BUDGET_WINDOW_DAY, lambda now: now),
        (pb.BUDGET_WINDOW_WEEK, lambda now: now - timedelta(days=now.weekday())),
        (pb.BUDGET_WINDOW_MONTH, lambda now: now.replace(day=1)),
    ],
)
async def test_calendar_windows_start_at_midnight_of_the_budgets_time_zone(
    admin: Client, window: int, starts: Any
) -> None:
    zone = ZoneInfo("Pacific/Auckland")
    await admin.add_budget(window=window, time_zone=zone.key)
    before = datetime.now(zone)
    status = await admin.status()
    after = datetime.now(zone)
    expected = {
        starts(now).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
        for now in (before, after)
    }
    assert status.window_start.ToDatetime(tzinfo=UTC) in expected


async def test_what_was_spent_in_an_earlier_window_does_not_count_in_this_one(
    worker: Client, admin: Client
) -> None:
    windows: tuple[tuple[str, dict[str, Any]], ...] = (
        ("day", {"window": pb.BUDGET_WINDOW_DAY}),
        ("hour", {"window": pb.BUDGET_WINDOW_ROLLING, "rolling_length": timedelta(hours=1)}),
        ("all", {}),
    )
    for id, fields in windows:
        await admin.add_budget(id, **fields)
    record = make_record("k")
    record.occur_time.FromDatetime(datetime.now(UTC) - timedelta(days=2))
    await worker.ledger.Record(record)
    posted = [(await worker.status(id)).posted for id in ("day", "hour", "all")]
    assert posted == [usd("0"), usd("0"), usd("0.00225")]


async def test_a_rolling_window_counts_the_time_just_past(worker: Client, admin: Client) -> None:
    fields: dict[str, Any] = {
        "window": pb.BUDGET_WINDOW_ROLLING,
        "rolling_length": timedelta(hours=1),
    }
    await admin.add_budget(limit="0.02", **fields)
    record = make_record("earlier")
    record.occur_time.FromDatetime(datetime.now(UTC) - timedelta(minutes=50))
    await worker.ledger.Record(record)
    await worker.ledger.Reserve(make_reserve("k"))
    status = await worker.status()
    assert (status.posted, status.held) == (usd("0.00225"), usd("0.01125"))
    assert (await worker.ledger.Reserve(make_reserve("k2"))).HasField("rejection")
    await worker.ledger.Capture(make_capture("k"))
    assert (await worker.ledger.Reserve(make_reserve("k3"))).HasField("hold")


async def test_a_budget_in_another_currency_is_an_error_not_no_limit(
    worker: Client, admin: Client
) -> None:
    euros = money_pb2.Money(currency_code="EUR", amount="5")
    price = make_price("own/eu", {"call": ("1", "1")}, currency_code="EUR")
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
    await admin.add_budget(hard_limit=euros)
    call = worker.ledger.Reserve(make_reserve("k"))
    assert await code_of(call) is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_budget_in_a_currency_without_prices_is_rejected_where_it_is_made(
    admin: Client,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await admin.add_budget(hard_limit=money_pb2.Money(currency_code="XYZ", amount="1"))
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no price is in XYZ" in (rejected.value.details() or "")
    assert "limit it in USD" in (rejected.value.details() or "")
    assert await code_of(admin.status()) is grpc.StatusCode.NOT_FOUND


async def test_budgets_of_single_runs_are_listed_only_where_they_are_wanted(
    admin: Client,
) -> None:
    ids = ["cap", "direct-call/d1", "episode/e1"]
    for budget_id in ids:
        await admin.add_budget(budget_id)
    for include_runs, expected in ((False, ["cap"]), (True, ids)):
        page = await admin.budgets.ListBudgets(pb.ListBudgetsRequest(include_runs=include_runs))
        assert [status.budget.id for status in page.statuses] == expected


async def test_creating_the_same_budget_again_returns_it(admin: Client) -> None:
    first = await admin.add_budget()
    assert await admin.add_budget() == first
    assert await code_of(admin.add_budget(limit="2")) is grpc.StatusCode.ALREADY_EXISTS
    assert (await admin.status()).budget == first


async def test_a_closed_budget_decides_nothing(worker: Client, admin: Client) -> None:
    await admin.add_budget(limit="0")
    closed = await admin.budgets.CloseBudget(pb.CloseBudgetRequest(id="cap"))
    assert closed.budget.HasField("close_time")
    assert await admin.budgets.CloseBudget(pb.CloseBudgetRequest(id="cap")) == closed
    assert (await worker.ledger.Reserve(make_reserve("k"))).HasField("hold")


async def test_budgets_are_listed_page_by_page(admin: Client) -> None:
    for number in range(5):
        await admin.add_budget(f"b{number}")
    ids: list[str] = []
    token = ""
    while True:
        request = pb.ListBudgetsRequest(page_size=2, page_token=token)
        page = await admin.budgets.ListBudgets(request)
        ids.extend(status.budget.id for status in page.statuses)
        token = page.next_page_token
        if not token:
            break
    assert ids == ["b0", "b1", "b2", "b3", "b4"]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"scope": pb.BUDGET_SCOPE_UNSPECIFIED},
        {"scope": pb.BUDGET_SCOPE_USER},
        {"scope_id": "somebody"},
        {"window": pb.BUDGET_WINDOW_UNSPECIFIED},
        {"window": pb.BUDGET_WINDOW_ROLLING},
        {"rolling_length": timedelta(hours=1)},
        {"time_zone": "Mars/Olympus"},
        {"hard_limit": usd("-1")},
        {"hard_limit": usd("1e3")},
        {"hard_limit": money_pb2.Money(currency_code="dollars", amount="1")},
        {"hard_limit": None},
        {"soft_limits": [money_pb2.Money(currency_code="EUR", amount="1")]},
    ],
)
async def test_a_budget_that_cannot_be_enforced_is_rejected(
    admin: Client, fields: dict[str, Any]
) -> None:
    assert await code_of(admin.add_budget(**fields)) is grpc.StatusCode.INVALID_ARGUMENT
    assert not (await admin.budgets.ListBudgets(pb.ListBudgetsRequest())).statuses


async def test_whoever_runs_episodes_limits_episodes_and_nothing_else(
    ledger: RunningLedger,
) -> None:
    runner = ledger.as_("acme", Scope.EPISODES_RUN)
    await runner.add_budget(scope=pb.BUDGET_SCOPE_EPISODE, scope_id="e1")
    # An episode that calls others shares one with them.
    await runner.add_budget("episode/e1", scope=pb.BUDGET_SCOPE_NAMED)
    await runner.budgets.CloseBudget(pb.CloseBudgetRequest(id="episode/e1"))
    for id, scope in (
        ("all", pb.BUDGET_SCOPE_TENANT),
        ("ours", pb.BUDGET_SCOPE_NAMED),
        ("episode/e2", pb.BUDGET_SCOPE_TENANT),
    ):
        assert await code_of(runner.add_budget(id, scope=scope)) is (
            grpc.StatusCode.PERMISSION_DENIED
        )


async def test_a_budget_of_the_platform_binds_a_tenant_that_cannot_change_it(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    operator = ledger.as_("operators", Scope.PLATFORM_ADMIN)
    budget = make_budget("platform:cap", "0.005")
    await operator.budgets.CreateBudget(pb.CreateBudgetRequest(budget=budget, tenant="acme"))
    rejection = (await worker.ledger.Reserve(make_reserve("k"))).rejection
    assert rejection.budget_id == "platform:cap"
    assert (await admin.status("platform:cap")).budget.hard_limit == usd("0.005")
    for call in (
        admin.add_budget("platform:mine"),
        admin.budgets.CloseBudget(pb.CloseBudgetRequest(id="platform:cap")),
        admin.budgets.UpdateBudget(
            pb.UpdateBudgetRequest(
                id="platform:cap",
                update_mask=FieldMask(paths=["hard_limit"]),
                hard_limit=usd("9"),
            )
        ),
    ):
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
    closed = await operator.budgets.CloseBudget(
        pb.CloseBudgetRequest(id="platform:cap", tenant="acme")
    )
    assert closed.budget.HasField("close_time")
    assert (await worker.ledger.Reserve(make_reserve("k2"))).HasField("hold")


async def test_another_tenants_budgets_are_the_platforms_to_see_and_to_set(
    ledger: RunningLedger, admin: Client
) -> None:
    await admin.add_budget()
    stranger = ledger.as_("zeta", Scope.TENANT_ADMIN)
    theirs = pb.CreateBudgetRequest(budget=make_budget("platform:x", "1"), tenant="acme")
    for call in (
        stranger.budgets.ListBudgets(pb.ListBudgetsRequest(tenant="acme")),
        stranger.budgets.GetBudget(pb.GetBudgetRequest(id="cap", tenant="acme")),
        stranger.budgets.CreateBudget(theirs),
        stranger.budgets.ListAlerts(pb.ListAlertsRequest(tenant="acme")),
    ):
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
    operator = ledger.as_("operators", Scope.PLATFORM_ADMIN)
    found = await operator.budgets.ListBudgets(pb.ListBudgetsRequest(tenant="acme"))
    assert [status.budget.id for status in found.statuses] == ["cap"]
    plain = pb.CreateBudgetRequest(budget=make_budget("x", "1"), tenant="acme")
    assert await code_of(operator.budgets.CreateBudget(plain)) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(("scope", "field"), [("TEAM", "teams"), ("AGENT", "agents")])
async def test_budgets_of_all_that_a_caller_belongs_to_are_charged(
    worker: Client, admin: Client, scope: str, field: str
) -> None:
    number = pb.BudgetScope.Value(f"BUDGET_SCOPE_{scope}")
    for name, limit in (("red", "1"), ("blue", "0.03"), ("green", "1")):
        await admin.add_budget(name, limit, scope=number, scope_id=name)
    subject = make_subject(**{field.removesuffix("s"): "red"})
    belongs = {"subject": subject, field: ["red", "blue"]}
    for key in ("one", "two"):
        assert (await worker.ledger.Reserve(make_reserve(key, **belongs))).HasField("hold")
        await worker.ledger.Capture(make_capture(key))
    third = await worker.ledger.Reserve(make_reserve("three", **belongs))
    fourth = await worker.ledger.Reserve(make_reserve("four", **belongs))
    assert third.HasField("hold") and fourth.HasField("hold")
    rejected = await worker.ledger.Reserve(make_reserve("five", **belongs))
    assert rejected.rejection.budget_id == "blue"
    red, blue, green = [await admin.status(name) for name in ("red", "blue", "green")]
    assert red.posted.amount == blue.posted.amount == "0.0045"
    assert red.held.amount == blue.held.amount == "0.0225"
    assert green.posted.amount in ("", "0")


CALL = Decimal("0.01125")
MINI, NANO = "openai/gpt-5-mini", "openai/gpt-5-nano"


async def held(client: Client, id: str) -> Decimal:
    status = await client.status(id)
    return Decimal(status.held.amount)


async def add_prices(client: Client, *specs: prices_pb.PriceSpec) -> None:
    await client.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=specs))


def alternative(sku: str, model: str, output: int = 1000) -> ledger_pb.Alternative:
    worst_case = quantities(input_fresh=1000, output_text=output)
    return ledger_pb.Alternative(tool="answer", model=model, sku=sku, worst_case=worst_case)


@pytest.fixture
def hierarchy() -> dict[str, tuple[int, dict[str, Any]]]:
    return {
        "all": (9, {}),
        "red": (6, {"scope": pb.BUDGET_SCOPE_TEAM, "scope_id": "red"}),
        "blue": (4, {"scope": pb.BUDGET_SCOPE_TEAM, "scope_id": "blue"}),
        "bob": (5, {"scope": pb.BUDGET_SCOPE_USER, "scope_id": "bob"}),
        "bot": (8, {"scope": pb.BUDGET_SCOPE_AGENT, "scope_id": "bot"}),
        "e0": (3, {"scope": pb.BUDGET_SCOPE_EPISODE, "scope_id": "e0"}),
    }


async def test_64_concurrent_calls_under_six_budgets_are_held_in_all_of_theirs_or_in_none(
    database: Database,
    tmp_path: Path,
    hierarchy: dict[str, tuple[int, dict[str, Any]]],
) -> None:
    database_url = await database("cost_ledger")
    async with (
        running_ledger(database_url, tmp_path) as one,
        running_ledger(database_url, tmp_path) as other,
    ):
        await add_prices(one.admin(), make_price())
        admin = one.as_("acme", Scope.TENANT_ADMIN)
        for name, (calls, fields) in hierarchy.items():
            await admin.add_budget(name, str(CALL * calls), **fields)
        clients = (one.as_(), other.as_())
        subjects = [
            make_subject(
                team=("red", "blue")[n % 2],
                user=("bob", "eve")[n // 2 % 2],
                agent=("bot", "")[n // 4 % 2],
                episode_id=f"e{n % 3}",
            )
            for n in range(64)
        ]
        answers = await asyncio.gather(
            *(
                clients[n % 2].ledger.Reserve(make_reserve(f"k{n}", subject=subject))
                for n, subject in enumerate(subjects)
            )
        )
        admitted = [
            subject
            for subject, answer in zip(subjects, answers, strict=True)
            if answer.HasField("hold")
        ]
        counts = Counter(
            name
            for subject in admitted
            for name in ("all", subject.team, subject.user, subject.agent, subject.episode_id)
        )
        for name, (calls, _) in hierarchy.items():
            assert await held(clients[0], name) == counts[name] * CALL <= calls * CALL
        full = {name for name, (calls, _) in hierarchy.items() if counts[name] == calls}
        for subject, answer in zip(subjects, answers, strict=True):
            if answer.HasField("rejection"):
                mine = {"all", subject.team, subject.user, subject.agent, subject.episode_id}
                assert answer.rejection.budget_id in mine & full


async def test_concurrent_clamps_share_a_budget_to_its_last_token(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget("cap", "0.02")
    asked = [make_reserve(f"k{n}", min_output_tokens=1) for n in range(32)]
    answers = await asyncio.gather(*(worker.ledger.Reserve(each) for each in asked))
    holds = [answer.hold for answer in answers if answer.HasField("hold")]
    total = sum((Decimal(hold.amount.amount) for hold in holds), Decimal(0))
    # One whole call, one clamped to what is left, less than a token's price unused.
    assert len(holds) == 2
    assert Decimal("0.02") - total < Decimal("0.00001")
    assert total == await held(worker, "cap") <= Decimal("0.02")


async def test_a_hold_is_clamped_to_the_tightest_budget_and_the_same_for_every_retry(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget("wide", "1")
    await admin.add_budget("tight", "0.005", scope=pb.BUDGET_SCOPE_USER, scope_id="ada")
    asked = make_reserve("k", min_output_tokens=375)
    hold = (await worker.ledger.Reserve(asked)).hold
    assert list(hold.worst_case) == quantities(input_fresh=1000, output_text=375)
    assert hold.amount == usd("0.005")
    assert await held(worker, "wide") == Decimal("0.005")
    assert (await worker.ledger.Reserve(asked)).hold == hold
    rejection = (await worker.ledger.Reserve(make_reserve("k2", min_output_tokens=1))).rejection
    assert (rejection.budget_id, rejection.HasField("fitting_output_tokens")) == ("tight", False)


async def test_a_call_worth_making_only_in_full_is_rejected_with_what_would_fit(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget("cap", "0.005")
    rejection = (await worker.ledger.Reserve(make_reserve("k", min_output_tokens=376))).rejection
    assert rejection.fitting_output_tokens == 375
    assert not await held(worker, "cap")


async def test_a_rejection_names_the_next_cheaper_call_that_fits(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    mini = {"input_fresh": ("0.25", "1000000"), "output_text": ("2", "1000000")}
    nano = {"input_fresh": ("0.05", "1000000"), "output_text": ("0.4", "1000000")}
    euro = make_price("eu", nano, currency_code="EUR")
    await add_prices(ledger.admin(), make_price(MINI, mini), make_price(NANO, nano), euro)
    await admin.add_budget("cap", "0.004")
    alternatives = [
        alternative(GPT5, "answer-1"),
        alternative(NANO, "answer-3"),
        alternative(MINI, "answer-2"),
        alternative("unknown", "answer-4"),
        alternative("eu", "answer-5"),
    ]
    rejection = (
        await worker.ledger.Reserve(make_reserve("k", alternatives=alternatives))
    ).rejection
    assert (rejection.alternative.tool, rejection.alternative.model) == ("answer", "answer-2")
    assert rejection.alternative.worst_case_cost == usd("0.00225")
    assert "use answer with model answer-2, which costs at most 0.00225 USD" in rejection.message
    # The answer is kept, whatever is left of the budget by now.
    again = (await worker.ledger.Reserve(make_reserve("k", alternatives=alternatives))).rejection
    assert again == rejection
    await admin.add_budget("empty", "0.0001")
    none = (await worker.ledger.Reserve(make_reserve("k2", alternatives=alternatives))).rejection
    assert not none.HasField("alternative")


async def test_a_budget_decides_from_its_start_until_its_end(worker: Client, admin: Client) -> None:
    now = datetime.now(UTC)
    later = now + timedelta(days=1)
    await admin.add_budget("tomorrow", "0", start_time=later)
    assert (await worker.ledger.Reserve(make_reserve("k"))).HasField("hold")
    await admin.add_budget("today", "0", end_time=later)
    assert (await worker.ledger.Reserve(make_reserve("k2"))).rejection.budget_id == "today"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"end_time": datetime(2020, 1, 1, tzinfo=UTC)}, "end_time is in the past"),
        ({"start_time": datetime(2020, 1, 1, tzinfo=UTC)}, "start_time is in the past"),
        (
            {
                "start_time": datetime(2099, 1, 2, tzinfo=UTC),
                "end_time": datetime(2099, 1, 1, tzinfo=UTC),
            },
            "end_time must be after start_time",
        ),
        ({"soft_limits": [usd("2")]}, "above the hard limit"),
        ({"soft_limits": [usd("-1")]}, "is negative"),
    ],
)
async def test_a_budget_in_the_past_or_beyond_itself_is_rejected_and_changes_nothing(
    admin: Client, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=complaint) as rejected:
        await admin.add_budget("cap", "1", **fields)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not (await admin.budgets.ListBudgets(pb.ListBudgetsRequest())).statuses


@pytest.mark.parametrize(
    "fields",
    [
        {"min_output_tokens": -1},
        {"alternatives": [alternative(GPT5, "m", -5)]},
        {"alternatives": [alternative(GPT5, "m")] * 51},
    ],
)
async def test_a_reserve_that_cannot_be_understood_is_rejected_and_changes_nothing(
    worker: Client, admin: Client, fields: dict[str, Any]
) -> None:
    await admin.add_budget("cap", "1")
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Reserve(make_reserve("k", **fields))
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await held(worker, "cap")

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest

from embedded_servers import Database
from integration.cost_ledger.builders import (
    GPT5,
    make_budget,
    make_price,
    make_reserve,
    make_subject,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope

CALL = Decimal("0.01125")
MINI, NANO = "openai/gpt-5-mini", "openai/gpt-5-nano"


async def add_budget(client: Client, id: str, limit: str, **fields: Any) -> pb.Budget:
    request = pb.CreateBudgetRequest(budget=make_budget(id, limit, **fields))
    return (await client.budgets.CreateBudget(request)).budget


async def held(client: Client, id: str) -> Decimal:
    status = (await client.budgets.GetBudget(pb.GetBudgetRequest(id=id))).status
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
            await add_budget(admin, name, str(CALL * calls), **fields)
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
    await add_budget(admin, "cap", "0.02")
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
    await add_budget(admin, "wide", "1")
    await add_budget(admin, "tight", "0.005", scope=pb.BUDGET_SCOPE_USER, scope_id="ada")
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
    await add_budget(admin, "cap", "0.005")
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
    await add_budget(admin, "cap", "0.004")
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
    await add_budget(admin, "empty", "0.0001")
    none = (await worker.ledger.Reserve(make_reserve("k2", alternatives=alternatives))).rejection
    assert not none.HasField("alternative")


async def test_a_budget_decides_from_its_start_until_its_end(worker: Client, admin: Client) -> None:
    now = datetime.now(UTC)
    later = now + timedelta(days=1)
    await add_budget(admin, "tomorrow", "0", start_time=later)
    assert (await worker.ledger.Reserve(make_reserve("k"))).HasField("hold")
    await add_budget(admin, "today", "0", end_time=later)
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
        await add_budget(admin, "cap", "1", **fields)
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
    await add_budget(admin, "cap", "1")
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Reserve(make_reserve("k", **fields))
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await held(worker, "cap")

"""Budgets of teams, users, agents, keys, tools and models, which cover one call at once."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from embedded_servers import Database
from integration.cost_ledger.builders import (
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_subject,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    findings_of,
    running_ledger,
)
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope

MODELS = ("small", "large")
# What a call of 1000 output tokens costs at most, by its model.
COST = {"small": Decimal("0.001"), "large": Decimal("0.005")}


def sku(model: str) -> str:
    return f"m/{model}"


def fallback(model: str) -> hold_pb2.Fallback:
    return hold_pb2.Fallback(model=model, sku=sku(model))


async def add_prices(ledger: RunningLedger) -> None:
    specs = [
        make_price(sku(model), {"output_text": (str(cost), "1000")}) for model, cost in COST.items()
    ]
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=specs))


def call_of(key: str, model: str = "small", **fields: Any) -> ledger_pb.ReserveRequest:
    subject = {"tool": "ask", "model": model} | fields.pop("subject", {})
    return make_reserve(
        key,
        subject=make_subject(**subject),
        sku=sku(model),
        worst_case=quantities(output_text=1000),
        **fields,
    )


async def amounts(client: Client, id: str) -> tuple[str, str]:
    status = await client.status(id)
    return status.held.amount, status.posted.amount


@pytest.mark.parametrize(
    ("scope", "scope_id", "inside", "outside"),
    [
        (pb.BUDGET_SCOPE_KEY, "k1", {"keys": ["k1"]}, {"keys": ["k2"]}),
        (pb.BUDGET_SCOPE_KEY, "k1", {"keys": ["k0", "k1"]}, {"subject": {"user": "k1"}}),
        (pb.BUDGET_SCOPE_TOOL, "ask", {}, {"subject": {"tool": "search"}}),
        (pb.BUDGET_SCOPE_MODEL, "small", {}, {"model": "large"}),
        (pb.BUDGET_SCOPE_MODEL, "small", {}, {"subject": {"model": "", "tool": "small"}}),
    ],
)
async def test_a_budget_of_a_key_tool_or_model_covers_its_calls_only(
    ledger: RunningLedger,
    worker: Client,
    admin: Client,
    scope: Any,
    scope_id: str,
    inside: dict[str, Any],
    outside: dict[str, Any],
) -> None:
    await add_prices(ledger)
    await admin.add_budget(limit="0", scope=scope, scope_id=scope_id)
    rejected = await worker.ledger.Reserve(call_of("in", **inside))
    assert rejected.rejection.budget_id == "cap"
    assert (await worker.ledger.Reserve(call_of("out", **outside))).HasField("hold")


async def test_a_recorded_cost_counts_in_the_budgets_of_its_tool_and_model(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget("tool", scope=pb.BUDGET_SCOPE_TOOL, scope_id="ask")
    await admin.add_budget("model", scope=pb.BUDGET_SCOPE_MODEL, scope_id="small")
    await worker.ledger.Record(make_record(subject=make_subject(tool="ask", model="small")))
    assert await amounts(worker, "tool") == await amounts(worker, "model") == ("0", "0.00225")


async def test_a_call_is_held_in_the_budgets_of_all_models_that_may_answer_and_posted_in_one(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await add_prices(ledger)
    for model in MODELS:
        await admin.add_budget(model, scope=pb.BUDGET_SCOPE_MODEL, scope_id=model)
    for answering in MODELS:
        asked = call_of(answering, fallbacks=[fallback("large")])
        hold = (await worker.ledger.Reserve(asked)).hold
        assert (hold.amount, list(hold.fallbacks)) == (usd("0.005"), [fallback("large")])
        assert [(await amounts(worker, model))[0] for model in MODELS] == ["0.005", "0.005"]
        capture = make_capture(answering, make_usage(output_text=500))
        capture.answered_by.CopyFrom(fallback(answering))
        await worker.ledger.Capture(capture)
    assert await amounts(worker, "small") == ("0", "0.0005")
    assert await amounts(worker, "large") == ("0", "0.0025")
    credit = ledger_pb.AdjustRequest(key="undo", sequence=4, change=usd("-0.0025"), reason="wrong")
    assert (await admin.ledger.Adjust(credit)).entry.subject.model == "large"
    assert await amounts(worker, "large") == ("0", "0")
    assert not await findings_of(worker)


async def test_a_fallback_without_room_in_the_budget_of_its_model_is_left_out(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """The hold is for the most expensive model, which the budget of a cheap one must cover too."""
    await add_prices(ledger)
    await admin.add_budget("small", "0.004", scope=pb.BUDGET_SCOPE_MODEL, scope_id="small")
    both = await worker.ledger.Reserve(call_of("k", "large", fallbacks=[fallback("small")]))
    assert (list(both.hold.fallbacks), both.hold.amount) == ([], usd("0.005"))
    assert await amounts(worker, "small") == ("0", "0")
    fits = await worker.ledger.Reserve(call_of("k2", fallbacks=[fallback("large")]))
    assert (list(fits.hold.fallbacks), fits.hold.amount) == ([], usd("0.001"))
    assert not await findings_of(worker)


async def test_a_rejection_by_the_budget_of_a_model_names_another_model_that_fits(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await add_prices(ledger)
    await admin.add_budget("all", "0.003")
    await admin.add_budget("large", "0", scope=pb.BUDGET_SCOPE_MODEL, scope_id="large")
    other = ledger_pb.Alternative(
        tool="ask", model="small", sku=sku("small"), worst_case=quantities(output_text=1000)
    )
    rejection = (await worker.ledger.Reserve(call_of("k", "large", alternatives=[other]))).rejection
    assert (rejection.budget_id, rejection.alternative.model) == ("large", "small")
    assert rejection.alternative.worst_case_cost == usd("0.001")


def covering(call: ledger_pb.ReserveRequest, models: set[str]) -> set[str]:
    subject = call.subject
    return {
        "all",
        *(f"team {each}" for each in {subject.team, *call.teams} if each),
        f"user {subject.user}",
        *(f"agent {each}" for each in {subject.agent, *call.agents} if each),
        *(f"key {each}" for each in call.keys),
        f"tool {subject.tool}",
        *(f"model {each}" for each in models),
    }


def drawn_calls(chance: random.Random, count: int) -> Iterator[ledger_pb.ReserveRequest]:
    for number in range(count):
        model = chance.choice(MODELS)
        others = [fallback(each) for each in MODELS if each != model and chance.random() < 0.5]
        yield call_of(
            f"k{number}",
            model,
            subject={
                "team": chance.choice(["red", "blue"]),
                "user": chance.choice(["bob", "eve"]),
                "agent": chance.choice(["bot", ""]),
                "tool": chance.choice(["ask", "tell"]),
            },
            teams=chance.choice([[], ["red"], ["red", "green"]]),
            keys=chance.choice([["k1"], ["k2"]]),
            fallbacks=others,
        )


SCOPES = {
    "all": [""],
    "team": ["red", "blue", "green"],
    "user": ["bob", "eve"],
    "agent": ["bot"],
    "key": ["k1", "k2"],
    "tool": ["ask", "tell"],
    "model": list(MODELS),
}


@pytest.mark.parametrize("seed", range(4))
async def test_no_budget_of_any_scope_is_overshot_by_96_concurrent_calls(
    database: Database, tmp_path: Path, seed: int
) -> None:
    """Through two replicas; what is held and posted in each budget is that of its own calls."""
    chance = random.Random(seed)
    database_url = await database("cost_ledger")
    async with (
        running_ledger(database_url, tmp_path) as one,
        running_ledger(database_url, tmp_path) as other,
    ):
        await add_prices(one)
        admin, limits = one.as_("acme", Scope.TENANT_ADMIN), {}
        for word, ids in SCOPES.items():
            for scope_id in ids:
                name = f"{word} {scope_id}".strip()
                limits[name] = Decimal(chance.randint(20, 160)) / 1000
                scope = "TENANT" if word == "all" else word.upper()
                await admin.add_budget(
                    name,
                    str(limits[name]),
                    scope=pb.BudgetScope.Value(f"BUDGET_SCOPE_{scope}"),
                    scope_id=scope_id,
                )
        clients = (one.as_(), other.as_())
        calls = list(drawn_calls(chance, 96))
        answers = await asyncio.gather(
            *(clients[n % 2].ledger.Reserve(call) for n, call in enumerate(calls))
        )
        held: defaultdict[str, Decimal] = defaultdict(Decimal)
        posted: defaultdict[str, Decimal] = defaultdict(Decimal)
        captures = []
        for call, answer in zip(calls, answers, strict=True):
            if answer.HasField("rejection"):
                assert answer.rejection.budget_id in covering(call, {call.subject.model})
                continue
            models = [call.subject.model, *(each.model for each in answer.hold.fallbacks)]
            for name in covering(call, set(models)):
                held[name] += Decimal(answer.hold.amount.amount)
            model = chance.choice(models)
            capture = make_capture(call.key, make_usage(output_text=1000))
            capture.answered_by.CopyFrom(fallback(model))
            captures.append(capture)
            for name in covering(call, {model}):
                posted[name] += COST[model]
        assert captures
        for name, limit in limits.items():
            assert Decimal((await amounts(clients[0], name))[0]) == held[name] <= limit, name
        assert not await findings_of(clients[0])
        await asyncio.gather(*(clients[n % 2].ledger.Capture(it) for n, it in enumerate(captures)))
        for name, limit in limits.items():
            found = [Decimal(each) for each in await amounts(clients[1], name)]
            assert found == [0, posted[name]], name
            assert posted[name] <= limit
        assert not await findings_of(clients[0])

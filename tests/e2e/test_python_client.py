import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from e2e.conftest import CLIENT_TASK, MODEL, SLOW_TASK, WholePlatform
from podium_client import (
    AsyncPodium,
    EpisodeEvent,
    EpisodeUnanswered,
    NotFound,
    Podium,
    Unauthenticated,
    models,
    new_id,
)

CALCULATOR = ["calculator"]
CALLED = ("action_decided", "tool_returned")
EVENTS = ["started", *CALLED, *CALLED, "action_decided", "finished"]


def podium(whole: WholePlatform, api_key: str | None = None) -> AsyncPodium:
    return AsyncPodium(whole.connection.gateway_url, api_key or whole.connection.api_key)


async def test_an_episode_is_run_and_its_turns_are_seen(whole: WholePlatform) -> None:
    seen: list[EpisodeEvent] = []
    async with podium(whole) as client:
        episode = await client.episodes.run(
            "what is 6 x 7?",
            tools=CALCULATOR,
            budget="0.05",
            labels={"of": "sdk"},
            on_event=seen.append,
        )
        again = await client.episodes.get(episode.id)
        trajectory = await client.episodes.trajectory(episode.id)
        found = [each.id async for each in client.episodes.list(labels={"of": "sdk"}, page_size=1)]
    assert episode.answer == "42"
    assert [event.kind for event in seen] == EVENTS
    assert again == episode
    assert episode.cost is not None and trajectory.cost is not None
    assert episode.cost.amount == trajectory.cost.amount > 0
    assert episode.id in found


async def test_functions_of_the_client_are_called(whole: WholePlatform) -> None:
    asked: list[str] = []

    async def getWeather(city: str) -> dict[str, float]:
        """Weather at our own station."""
        asked.append(city)
        return {"degrees": -3.5}

    async with podium(whole) as client:
        episode = await client.episodes.run(CLIENT_TASK, functions=[getWeather], tools=CALCULATOR)
        trajectory = await client.episodes.trajectory(episode.id)
    assert asked == ["Oslo"]
    observations = [
        call.observation.content
        for turn in trajectory.turns
        for call in turn.tool_invocations
        if call.observation
    ]
    assert observations[0] == '{"degrees":-3.5}'


def test_what_a_function_raises_is_told_to_the_model(whole: WholePlatform) -> None:
    def getWeather(city: str) -> str:
        """Weather at our own station."""
        raise ValueError(f"the station of {city} is closed")

    with Podium(whole.connection.gateway_url, whole.connection.api_key) as client:
        episode = client.episodes.run(CLIENT_TASK, functions=[getWeather], tools=CALCULATOR)
        (first, *_) = client.episodes.trajectory(episode.id).turns
    observed = first.tool_invocations[0].observation
    assert observed is not None and observed.failure is not None
    assert observed.failure.message == "ValueError: the station of Oslo is closed"


async def test_a_cancelled_episode_has_no_answer(whole: WholePlatform) -> None:
    async with podium(whole) as client:
        started = await client.episodes.start(SLOW_TASK, tools=CALCULATOR)
        waiting = asyncio.create_task(client.episodes.wait(started.id))
        await client.episodes.cancel(started.id, "the test is over")
        with pytest.raises(EpisodeUnanswered, match="cancelled") as caught:
            await waiting
    assert caught.value.episode.stop_reason == "STOP_REASON_CANCELLED"


async def test_the_same_id_is_the_same_episode(whole: WholePlatform) -> None:
    episode_id = new_id()
    async with podium(whole) as client:
        for _ in range(2):
            one = await client.episodes.start("once", tools=CALCULATOR, episode_id=episode_id)
            assert one.id == episode_id
        first = await client.episodes.start("twice", tools=CALCULATOR, idempotency_key="sdk-1")
        second = await client.episodes.start("twice", tools=CALCULATOR, idempotency_key="sdk-1")
    assert first.id == second.id


async def test_money_is_reported_to_the_last_digit(whole: WholePlatform) -> None:
    async with podium(whole) as client:
        episode = await client.episodes.run("what is 6 x 7?", tools=CALCULATOR)
        rows = await client.ledger.spend(["tool", "model"], episode_id=episode.id).all()
        entries = client.ledger.entries(episode_id=episode.id, kinds=["ENTRY_KIND_CAPTURE"])
        charged = [entry.amount.amount async for entry in entries if entry.amount]
        steps = [step async for step in client.ledger.verify()]
        prices = await client.prices.effective([f"orchestrator/{MODEL}", "tool/nothing"])
    assert episode.cost is not None
    assert sum(row.amounts[0].amount for row in rows) == sum(charged) == episode.cost.amount
    assert not [finding for step in steps for finding in step.findings]
    priced = prices[f"orchestrator/{MODEL}"].spec
    assert priced is not None
    assert priced.components[0].unit_price == Decimal("0.2")


async def test_an_administrator_manages_the_tenant(whole: WholePlatform) -> None:
    async with podium(whole, whole.connection.admin_key) as client:
        tool = await client.tools.get("calculator")
        assert tool.spec is not None and tool.spec.name == "calculator"
        assert "calculator" in {
            each.spec.name async for each in client.tools.list(page_size=5) if each.spec
        }
        created = await client.policies.create(
            models.PolicySpec(
                name="sdk-frugal",
                preset="POLICY_PRESET_COST_FIRST",
                deny=models.ToolSelector(names=["calculator"]),
            )
        )
        assert created.version == 1
        decisions = await client.policies.explain("sdk-frugal")
        (decided,) = [each for each in decisions if each.name == "calculator"]
        assert not decided.allowed
        budget = await client.budgets.create("sdk", "10", window="day", alert_at=["8.00"])
        assert budget.hard_limit == models.Money(currency_code="USD", amount=Decimal(10))
        changed = await client.budgets.update("sdk", limit="12.50", version=budget.version)
        assert changed.hard_limit is not None and changed.hard_limit.amount == Decimal("12.50")
        assert changed.soft_limits == budget.soft_limits
        status = await client.budgets.get("sdk")
        assert status.remaining is not None and status.remaining.amount > 0
        later = datetime.now(UTC) + timedelta(days=1)
        raised = await client.budgets.raise_limit("sdk", "20", until=later, reason="launch")
        assert raised.raised is not None and raised.raised.end_time == later
        ended = await client.budgets.raise_limit("sdk", "0", until=None, reason="over")
        assert ended.raised is None
        assert (await client.budgets.close("sdk")).close_time is not None
        made = await client.keys.create("sdk", scopes=["episodes:run"])
        assert (await client.keys.revoke(made.api_key.id)).revoke_time is not None
        async with podium(whole, made.key) as revoked:
            with pytest.raises(Unauthenticated, match="revoked"):
                # For as long as the gateway may remember the key.
                while True:
                    await revoked.tenancy.limits()
                    await asyncio.sleep(0.2)
        log = client.tenancy.audit_log(action="CreatePolicy", resource="sdk-frugal")
        assert [entry.outcome async for entry in log] == ["done"]


async def test_what_does_not_exist_names_the_request(whole: WholePlatform) -> None:
    async with podium(whole) as client:
        with pytest.raises(NotFound) as caught:
            await client.episodes.get(new_id())
        assert caught.value.reason == "EPISODE_NOT_FOUND"
        assert caught.value.request_id
        assert "data" in await client.call("GET", "/v1/models")

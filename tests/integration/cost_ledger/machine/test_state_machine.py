import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uuid_utils
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_subject,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.machine.driver import Driver, serve
from integration.cost_ledger.machine.model import LIMITED_EPISODE, LIMITS, Answer, Model
from podium.ledger.v1 import audit_service_pb2 as audit_pb
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.rpc.identity import Scope

# `EXAMPLES=1000` for a night.
EXAMPLES = int(os.environ.get("EXAMPLES", "4"))
STEPS = 40
TENANTS = count()
KEYS = st.sampled_from([f"k{number}" for number in range(6)])
EPISODES = st.sampled_from([LIMITED_EPISODE, "e1"])
TOKENS = st.integers(5, 25).map(lambda hundreds: 100 * hundreds)
HOUR, DAY = 3600.0, 86400.0


class LedgerMachine(RuleBasedStateMachine):
    driver: ClassVar[Driver]

    def __init__(self) -> None:
        super().__init__()
        self.driver.reset_clock()
        self.tenant = f"tenant-{next(TENANTS)}"
        self.client: Any = self.driver.ledger.as_(self.tenant, Scope.PLATFORM_ADMIN)
        self.model = Model()
        self.sequences: dict[str, int] = {}
        self.last_raise: budgets_pb.RaiseBudgetRequest | None = None
        for id, fields in {
            "tenant": {},
            "episode": {"scope": budgets_pb.BUDGET_SCOPE_EPISODE, "scope_id": LIMITED_EPISODE},
            "hour": {
                "window": budgets_pb.BUDGET_WINDOW_ROLLING,
                "rolling_length": timedelta(seconds=HOUR),
            },
            "day": {"window": budgets_pb.BUDGET_WINDOW_DAY, "time_zone": "Pacific/Auckland"},
        }.items():
            budget = make_budget(id, str(LIMITS.get(id, 1000)), **fields)
            request = budgets_pb.CreateBudgetRequest(budget=budget)
            assert self._ask(self.client.budgets.CreateBudget(request))[0] is Answer.OK

    @rule(key=KEYS, episode=EPISODES, tokens=TOKENS, dispatched=st.booleans(), long=st.booleans())
    def reserve(self, key: str, episode: str, tokens: int, dispatched: bool, long: bool) -> None:
        seconds = 10 * DAY if long else HOUR
        request = make_reserve(
            key,
            subject=make_subject(episode_id=episode),
            worst_case=quantities(output_text=tokens),
            time_to_live=timedelta(seconds=seconds),
            dispatched=dispatched,
        )
        expected = self.model.reserve(key, episode, tokens, dispatched=dispatched, seconds=seconds)
        self._same(expected, self.client.ledger.Reserve(request))

    @rule(key=KEYS)
    def dispatch(self, key: str) -> None:
        request = pb.MarkDispatchedRequest(key=key)
        self._same(self.model.dispatch(key), self.client.ledger.MarkDispatched(request))

    @rule(key=KEYS, tokens=TOKENS)
    def capture(self, key: str, tokens: int) -> None:
        request = make_capture(key, make_usage(output_text=tokens))
        response = self._same(self.model.capture(key, tokens), self.client.ledger.Capture(request))
        self._remember(f"capture {key}", response)

    @rule(key=KEYS)
    def release(self, key: str) -> None:
        request = pb.ReleaseRequest(key=key)
        self._same(self.model.release(key), self.client.ledger.Release(request))

    @rule(key=KEYS, episode=EPISODES, tokens=TOKENS)
    def record(self, key: str, episode: str, tokens: int) -> None:
        request = make_record(
            key,
            subject=make_subject(episode_id=episode),
            usage=make_usage(output_text=tokens),
        )
        expected = self.model.record(key, episode, tokens)
        self._remember(f"record {key}", self._same(expected, self.client.ledger.Record(request)))

    @precondition(lambda self: self.sequences)
    @rule(number=st.integers(0, 5), change=st.integers(-20, 20).filter(bool), data=st.data())
    def adjust(self, number: int, change: int, data: st.DataObject) -> None:
        cost = data.draw(st.sampled_from(sorted(self.sequences)))
        amount = Decimal(change) / 1000
        request = pb.AdjustRequest(
            key=f"adjust{number}",
            sequence=self.sequences[cost],
            change=usd(str(amount)),
            reason="agreed",
        )
        expected = self.model.adjust(f"adjust{number}", cost, amount)
        self._same(expected, self.client.ledger.Adjust(request))

    @rule(
        budget=st.sampled_from(sorted(LIMITS)),
        limit=st.sampled_from(["0.01", "0.025", "0.04", "0.08"]),
        behind=st.integers(0, 2),
    )
    def update_budget(self, budget: str, limit: str, behind: int) -> None:
        version = max(0, self.model.versions[budget] - behind)
        request = budgets_pb.UpdateBudgetRequest(
            id=budget,
            version=version,
            update_mask=FieldMask(paths=["hard_limit"]),
            hard_limit=usd(limit),
        )
        expected = self.model.update(budget, Decimal(limit), version)
        self._same(expected, self.client.budgets.UpdateBudget(request))

    # It never ends at a time that `pass_time` reaches.
    @rule(
        budget=st.sampled_from(sorted(LIMITS)),
        amount=st.sampled_from(["0", "0.01", "0.03"]),
        hours=st.sampled_from([1, 25, 7 * 24 + 1]),
    )
    def raise_budget(self, budget: str, amount: str, hours: int) -> None:
        request = budgets_pb.RaiseBudgetRequest(
            id=budget, raise_id=str(uuid_utils.uuid7()), amount=usd(amount), reason="launch"
        )
        if Decimal(amount):
            end = datetime.now(UTC) + self.driver.shifted() + timedelta(hours=hours)
            request.end_time.FromDatetime(end)
        self.model.raise_limit(budget, Decimal(amount), hours * HOUR)
        self.last_raise = request
        self._same(Answer.OK, self.client.budgets.RaiseBudget(request))

    @precondition(lambda self: self.last_raise)
    @rule()
    def send_a_raise_again(self) -> None:
        self._same(Answer.OK, self.client.budgets.RaiseBudget(self.last_raise))

    @rule(seconds=st.sampled_from([2 * HOUR, DAY, 11 * DAY]))
    def pass_time(self, seconds: float) -> None:
        self.model.pass_time(seconds)
        self.driver.shift_clock(seconds)

    @rule(price=st.sampled_from(["5", "10", "20"]))
    def publish_price(self, price: str) -> None:
        spec = make_price(components={"output_text": (price, "1000000")}, tenant=self.tenant)
        spec.start_time.FromDatetime(datetime.now(UTC) + self.driver.shifted())
        request = prices_pb.CreatePricesRequest(specs=[spec])
        assert self._ask(self.client.prices.CreatePrices(request))[0] is Answer.OK
        self.model.token_price = Decimal(price) / 1_000_000

    @invariant()
    def budgets_are_the_models(self) -> None:
        for id in LIMITS:
            request = budgets_pb.GetBudgetRequest(id=id)
            _, response = self._ask(self.client.budgets.GetBudget(request))
            found = (Decimal(response.status.posted.amount), Decimal(response.status.held.amount))
            assert found == (self.model.posted(id), self.model.held(id)), id
            assert Decimal(response.status.limit.amount) == self.model.limit(id), id
            assert response.status.budget.version == self.model.versions[id], id

    @invariant()
    def the_books_are_in_order(self) -> None:
        """I1 to I11, as an auditor asks for them."""
        request = audit_pb.VerifyLedgerRequest()
        while True:
            _, response = self._ask(self.client.audit.VerifyLedger(request))
            assert not response.findings, response.findings
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    def _ask(self, call: Any) -> tuple[Answer, Any]:
        return self.driver.answer(call)

    def _same(self, expected: Answer, call: Any) -> Any:
        answer, response = self._ask(call)
        assert answer is expected
        return response

    def _remember(self, cost: str, response: Any) -> None:
        if response is not None:
            self.sequences[cost] = response.entry.sequence


# Long enough to run them all and to tell the shortest history that went wrong.
@pytest.mark.timeout(900 + 20 * EXAMPLES)
def test_whatever_happens_the_ledger_does_what_the_model_says(
    postgres_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        driver = Driver(runner, runner.run(serve(stack, postgres_server, tmp_path)))
        driver.start()
        LedgerMachine.driver = driver
        try:
            run_state_machine_as_test(
                LedgerMachine,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            driver.stop()
            runner.run(stack.aclose())

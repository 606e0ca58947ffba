from decimal import Decimal

import pytest

from podium_kit.metering import Dimension, Usage, UsageSource
from podium_kit.rpc.errors import NotFound
from tool_adapters.calls.facts import WINDOW_S, Facts, FactsBook

CALL = Usage.of(UsageSource.MEASURED, call=1)


def test_a_models_calls_count_for_its_tool_too() -> None:
    book = FactsBook()
    for latency_s, succeeded in ((0.1, True), (0.3, True), (0.2, False)):
        book.record("acme", ("expert", "small"), latency_s, CALL, succeeded=succeeded)
    book.record("acme", ("expert", "large"), 1.0, CALL, succeeded=True)
    facts = {entry.model_alias: entry for entry in book.take_changes()["acme"]}
    assert facts[""].sample_count == 4
    assert facts["small"].sample_count == 3
    assert abs(facts["small"].latencies.quantile_s(0.5) - 0.2) < 0.002
    assert facts["small"].success_rate == 2 / 3
    assert facts["large"].latencies.total == 1
    assert [(entry.dimension, entry.amount) for entry in facts[""].usage] == [
        (Dimension.CALL, Decimal(4))
    ]


def test_only_changes_are_given_out() -> None:
    book = FactsBook()
    book.record("acme", ("api", ""), 0.1, CALL, succeeded=True)
    assert book.take_changes().keys() == {"acme"}
    book.record("other", ("api", ""), 0.1, CALL, succeeded=True)
    assert book.take_changes().keys() == {"other"}
    assert not book.take_changes()


def test_old_samples_are_forgotten() -> None:
    now = 0.0
    book = FactsBook(clock=lambda: now)
    book.record("acme", ("slow", ""), 9.0, CALL, succeeded=False)
    now = WINDOW_S + 1
    book.record("acme", ("fast", ""), 0.1, CALL, succeeded=True)
    assert [entry.tool_name for entry in book.take_changes()["acme"]] == ["fast"]


def test_the_95th_percentile_lies_among_the_slowest() -> None:
    book = FactsBook()
    for hundredths in range(1, 101):
        book.record("acme", ("api", ""), hundredths / 100, CALL, succeeded=True)
    (facts,) = book.take_changes()["acme"]
    assert 0.94 <= facts.latencies.quantile_s(0.95) <= 0.97


async def test_a_report_that_is_rejected_keeps_no_other_tenants_back() -> None:
    sent = []

    async def send(tenant: str, _: list[Facts]) -> None:
        sent.append(tenant)
        if tenant == "gone":
            raise NotFound("there is no tool api")

    book = FactsBook()
    for tenant in ("acme", "gone", "other"):
        book.record(tenant, ("api", ""), 0.1, CALL, succeeded=True)
    with pytest.raises(NotFound):
        await book.report(send)
    assert sorted(sent) == ["acme", "gone", "other"]

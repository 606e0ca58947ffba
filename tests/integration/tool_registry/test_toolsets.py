import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from embedded_servers import Database
from integration.tool_registry.builders import (
    INPUT,
    make_facts,
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
    seconds,
    used,
)
from integration.tool_registry.running_registry import RunningRegistry, rejected, running_registry
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope
from podium_kit.wire import digest_of

PER_CALL = {"CALL": ("0.01", "1")}
TOKENS = {"INPUT_FRESH": ("0.20", "1000000"), "OUTPUT_TEXT": ("0.80", "1000000")}
REJECT = policy_pb2.UNKNOWN_PRICE_RULE_REJECT


def usd(amount: str) -> money_pb2.Money:
    return money_pb2.Money(currency_code="USD", amount=amount)


def reasons(reply: pb.ResolveToolsetResponse) -> dict[str, str]:
    return {one.name: one.reason for one in reply.decisions if not one.allowed}


async def test_terms_are_the_price_and_what_was_measured(registry: RunningRegistry) -> None:
    await registry.platform().register(make_spec(), shared=True)
    registry.prices.give(make_price("tool/calculator", PER_CALL))
    await registry.as_("platform", Scope.LEDGER_WRITE).record(make_facts("calculator"))
    [tool] = (await registry.as_().resolve()).toolset.tools
    assert tool.description == "Evaluates arithmetic."
    assert tool.terms == "$0.01, 1-2 s, 99%"
    assert tool.price_per_call == usd("0.01")


async def test_what_is_not_known_is_said_and_is_not_free(registry: RunningRegistry) -> None:
    await registry.as_().register(make_spec())
    [tool] = (await registry.as_().resolve()).toolset.tools
    assert tool.terms == "price unknown, latency unknown"
    assert not tool.HasField("price_per_call")


async def test_a_tenant_sees_the_price_it_pays(registry: RunningRegistry) -> None:
    await registry.platform().register(make_spec(), shared=True)
    registry.prices.give(make_price("tool/calculator", PER_CALL))
    registry.prices.give(make_price("tool/calculator", {"CALL": ("0.005", "1")}), tenant="globex")
    [listed] = (await registry.as_("acme").resolve()).toolset.tools
    [discounted] = (await registry.as_("globex").resolve()).toolset.tools
    assert listed.terms.startswith("$0.01,")
    assert discounted.terms.startswith("$0.005,")


async def test_a_price_schedule_is_quoted_and_changes_nothing_else(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    registry.prices.give(make_price("tool/calculator", PER_CALL))
    registry.prices.give(make_price("llm/strong", TOKENS))
    registry.prices.give(make_price("llm/quick", TOKENS))
    await ada.create_policy(
        price_ceiling=usd("0.5"), deny=policy_pb2.ToolSelector(models=["vendor/quick"])
    )
    true = (await ada.resolve("mine", "calculator")).toolset
    scheduled = await ada.resolve("mine", **{"tool/calculator": "100", "llm/strong": "0.5"})
    by_name = {tool.name: tool for tool in scheduled.toolset.tools}
    assert by_name["calculator"].terms.startswith("$1.00,")
    # Quoted above the ceiling; the charged price is unchanged.
    assert by_name["calculator"].price_per_call == usd("0.01")
    assert by_name["answer"].terms == "strong: $0.10/M in + $0.40/M out, latency unknown"
    again = (await ada.resolve("mine", "calculator")).toolset
    assert again == true
    assert scheduled.toolset.digest != true.digest


async def test_a_price_schedule_does_not_make_an_unknown_price_known(
    registry: RunningRegistry,
) -> None:
    await registry.as_().register(make_spec())
    [tool] = (await registry.as_().resolve(**{"tool/calculator": "2"})).toolset.tools
    assert tool.terms.startswith("price unknown,")


async def test_a_price_schedule_that_makes_no_sense_is_rejected(registry: RunningRegistry) -> None:
    error = await rejected(registry.as_().resolve(**{"tool/calculator": "free"}))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "price factor of tool/calculator" in str(error.details())


async def test_of_prices_by_the_hour_the_most_expensive_is_shown(registry: RunningRegistry) -> None:
    await registry.as_().register(make_spec())
    price = make_price("tool/calculator", PER_CALL)
    at_night = price.spec.components.add()
    at_night.CopyFrom(price.spec.components[0])
    at_night.unit_price = "0.005"
    registry.prices.give(price)
    [tool] = (await registry.as_().resolve()).toolset.tools
    assert tool.terms.startswith("$0.01,")


async def test_models_are_an_enum_and_have_terms_of_their_own(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    registry.prices.give(make_price("llm/strong", TOKENS))
    await registry.as_("acme", Scope.LEDGER_WRITE).record(
        # 400 calls used 0.4 million input tokens, so one costs 0.0002 on average.
        make_facts("answer", "strong", p50_s=31, p95_s=40, usage=[used(INPUT, "400000")])
    )
    [tool] = (await ada.resolve()).toolset.tools
    schema = json.loads(tool.parameters_json_schema)
    assert schema["properties"]["model"]["enum"] == ["strong", "quick"]
    assert schema["required"] == ["model"]
    assert tool.terms == (
        "strong: $0.20/M in + $0.80/M out, $0.0002 a call, 20-50 s, 99%;"
        " quick: price unknown, latency unknown"
    )
    assert dict(tool.model_skus) == {"strong": "llm/strong", "quick": "llm/quick"}


async def test_a_model_that_cannot_answer_now_is_left_out_for_the_tenant_that_met_it(
    registry: RunningRegistry,
) -> None:
    await registry.platform().register(
        make_llm_spec(make_model("strong"), make_model("quick")), shared=True
    )
    limited = make_facts("answer", "strong", unavailable_for=seconds(30))
    limited.unavailable_reason = "it is rate-limited"
    await registry.as_("acme", Scope.LEDGER_WRITE).record(limited)
    reply = await registry.as_("acme").resolve()
    [tool], [decision] = reply.toolset.tools, reply.decisions
    assert list(tool.model_aliases) == ["quick"]
    assert json.loads(tool.parameters_json_schema)["properties"]["model"]["enum"] == ["quick"]
    assert "without strong: unavailable now (it is rate-limited)" in decision.reason
    [other] = (await registry.as_("globex").resolve()).toolset.tools
    assert list(other.model_aliases) == ["strong", "quick"]
    assert "unavailable" not in other.terms
    direct = await registry.as_("acme").tools.ResolveToolset(
        pb.ResolveToolsetRequest(for_direct_calls=True)
    )
    [chosen] = direct.toolset.tools
    assert list(chosen.model_aliases) == ["strong", "quick"]
    assert "99%, unavailable now (it is rate-limited); quick" in chosen.terms
    registry.clock.advance(timedelta(seconds=31))
    [recovered] = (await registry.as_("acme").resolve()).toolset.tools
    assert list(recovered.model_aliases) == ["strong", "quick"]
    assert "unavailable" not in recovered.terms


async def test_what_cannot_answer_now_is_marked_where_nothing_replaces_it(
    registry: RunningRegistry,
) -> None:
    ada, adapters = registry.as_(), registry.as_("acme", Scope.LEDGER_WRITE)
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    away: dict[str, Any] = {
        "unavailable_for": seconds(86_400),
        "unavailable_reason": "its quota is used up",
    }
    await adapters.record(make_facts("calculator", **away))
    await adapters.record(*(make_facts("answer", each, **away) for each in ("strong", "quick")))
    answer, calculator = (await ada.resolve()).toolset.tools
    assert calculator.terms.endswith("99%, unavailable now (its quota is used up)")
    assert answer.terms.count("unavailable now (its quota is used up)") == 2
    assert list(answer.model_aliases) == ["strong", "quick"]
    registry.clock.advance(timedelta(minutes=5, seconds=1))
    assert "unavailable" not in (await ada.resolve()).toolset.tools[1].terms, "never tried again"


async def test_a_denied_model_leaves_the_enum_and_the_tool_stays(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    await ada.create_policy(deny=policy_pb2.ToolSelector(models=["vendor/strong"]))
    reply = await ada.resolve("mine")
    [tool] = reply.toolset.tools
    assert json.loads(tool.parameters_json_schema)["properties"]["model"]["enum"] == ["quick"]
    assert "strong: denied by model vendor/strong" in reply.decisions[0].reason


async def test_required_tags_may_be_those_of_one_model(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("here", tags=["on-premise"]), make_model("away")))
    await ada.register(make_spec())
    await ada.create_policy(required_tags=["on-premise"])
    reply = await ada.resolve("mine")
    assert [list(tool.model_skus) for tool in reply.toolset.tools] == [["here"]]
    assert reasons(reply) == {"calculator": "it lacks the required tag on-premise"}


async def test_the_price_ceiling_holds_for_the_worst_case(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("a")))
    await ada.register(make_spec())
    registry.prices.give(
        # 32,768 input tokens and 1,000 output tokens: 0.0065536 + 0.0008.
        make_price("llm/a", TOKENS),
        make_price("tool/calculator", {"CALL": ("0.0001", "1")}, "EUR"),
    )
    await ada.create_policy("at", price_ceiling=usd("0.0073536"))
    await ada.create_policy("below", price_ceiling=usd("0.0073535"))
    at, below = await ada.resolve("at"), await ada.resolve("below")
    assert [tool.price_per_call for tool in at.toolset.tools] == [usd("0.0073536")]
    assert "a call may cost 0.0073536 USD" in reasons(below)["answer"]
    assert "EUR cannot be held under a ceiling" in reasons(below)["calculator"]


async def test_what_nothing_bounds_has_no_worst_case(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("search"))
    registry.prices.give(
        make_price("tool/search", {"CALL": ("0.01", "1"), "DOCUMENT": ("0.002", "1")})
    )
    [tool] = (await ada.resolve()).toolset.tools
    assert tool.terms.startswith("$0.01 + $0.002/document,")
    assert not tool.HasField("price_per_call")


async def test_unknown_prices_are_rejected_unless_the_policy_admits_them(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.create_policy("unset", unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_UNSPECIFIED)
    await ada.create_policy("admits")
    rejecting = await ada.resolve("unset")
    assert rejecting.toolset.unknown_price == REJECT
    assert "price is unknown" in reasons(rejecting)["calculator"]
    assert not reasons(await ada.resolve("admits"))


async def test_of_the_presets_only_cost_first_rejects_unknown_prices(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    for preset in ("balanced", "accuracy-first", "speed-first"):
        assert not reasons(await ada.resolve(preset))
    assert "price is unknown" in reasons(await ada.resolve("cost-first"))["calculator"]


async def test_a_slow_tool_is_out_only_when_it_was_measured(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.create_policy(latency_ceiling=seconds(2))
    assert not reasons(await ada.resolve("mine"))
    await registry.as_("acme", Scope.LEDGER_WRITE).record(make_facts("calculator", p95_s=2.1))
    assert "p95 latency is 2.1" in reasons(await ada.resolve("mine"))["calculator"]


async def test_a_wanted_tool_must_exist_and_be_allowed(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("one"))
    await ada.register(make_spec("two"))
    await ada.create_policy(deny=policy_pb2.ToolSelector(names=["two"]))
    assert [tool.name for tool in (await ada.resolve("mine", "one")).toolset.tools] == ["one"]
    denied = await rejected(ada.resolve("mine", "one", "two"))
    assert denied.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "denied by name two" in str(denied.details())
    unknown = await rejected(ada.resolve("mine", "three"))
    assert unknown.code() == grpc.StatusCode.NOT_FOUND


async def test_the_digest_changes_with_the_content_and_with_nothing_else(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec("one"))
    before = (await ada.resolve()).toolset
    assert before.digest == digest_of(before)
    await registry.as_("globex").register(make_spec("theirs"))
    assert (await ada.resolve()).toolset == before
    registry.prices.give(make_price("tool/one", PER_CALL))
    priced = (await ada.resolve()).toolset
    assert priced.digest != before.digest
    await ada.register(make_spec("two"))
    await ada.deprecate("two")
    assert (await ada.resolve()).toolset == priced


async def test_the_same_registry_started_twice_gives_the_same_digest(
    database: Database, tmp_path: Path
) -> None:
    url, digests = await database("tool_registry"), []
    for _ in range(2):
        async with running_registry(url, tmp_path) as registry:
            await registry.as_().register(make_spec(tags=["b", "a"]))
            await registry.as_().register(make_llm_spec(make_model("x"), make_model("y")))
            digests.append((await registry.as_().resolve()).toolset.digest)
    assert digests[0] == digests[1]


async def test_a_change_made_by_one_replica_is_seen_by_the_next_call_of_another(
    database: Database, tmp_path: Path
) -> None:
    url = await database("tool_registry")
    (tmp_path / "other").mkdir()
    async with (
        running_registry(url, tmp_path) as one,
        running_registry(url, tmp_path / "other") as other,
    ):
        assert not (await other.as_().resolve()).toolset.tools
        await one.as_().register(make_spec())
        assert [tool.name for tool in (await other.as_().resolve()).toolset.tools] == ["calculator"]
        await one.as_("acme", Scope.LEDGER_WRITE).record(make_facts("calculator"))
        assert "1-2 s" in (await other.as_().resolve()).toolset.tools[0].terms


async def test_without_the_ledger_there_is_no_toolset_rather_than_a_free_one(
    database: Database, tmp_path: Path
) -> None:
    async with running_registry(
        await database("tool_registry"), tmp_path, "127.0.0.1:1"
    ) as registry:
        await registry.as_().register(make_spec())
        error = await rejected(registry.as_().resolve())
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert "cost-ledger does not answer" in str(error.details())


async def test_explain_says_why_each_tool_is_in_or_out_under_a_tried_policy(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec("inside", tags=["on-premise"]))
    await ada.register(make_spec("outside"))
    spec = policy_pb2.PolicySpec(
        name="tried",
        allow=policy_pb2.ToolSelector(tags=["on-premise"]),
        unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_ADMIT,
    )
    reply = await ada.policies.ExplainToolset(policies_pb.ExplainToolsetRequest(spec=spec))
    assert [(one.name, one.allowed, one.reason) for one in reply.decisions] == [
        ("inside", True, "allowed by tag on-premise"),
        ("outside", False, "the policy allows only others"),
    ]
    assert (await rejected(ada.resolve("tried"))).code() == grpc.StatusCode.NOT_FOUND


async def test_facts_of_unlike_processes_are_merged_without_loss(
    registry: RunningRegistry,
) -> None:
    adapters = registry.as_("acme", Scope.LEDGER_WRITE)
    await registry.as_().register(make_spec())
    await adapters.record(make_facts("calculator", count=1, p50_s=9, p95_s=9), reporter="one")
    await adapters.record(make_facts("calculator", count=900, p50_s=1, p95_s=1), reporter="one")
    await adapters.record(
        make_facts("calculator", count=100, p50_s=60, p95_s=60, success_rate=0), reporter="two"
    )
    registry.prices.give(make_price("tool/calculator", PER_CALL))
    reply = await registry.as_().tools.ListToolFacts(pb.ListToolFactsRequest())
    [facts] = reply.facts
    # Means of the two processes' quantiles, weighed by calls, would both be near 7 s.
    assert facts.latency_p50.ToTimedelta().total_seconds() == pytest.approx(1, rel=0.01)
    assert facts.latency_p95.ToTimedelta().total_seconds() == pytest.approx(60, rel=0.01)
    assert (facts.sample_count, facts.success_rate) == (1000, 0.9)
    assert facts.mean_cost == usd("0.01")


async def test_the_ten_minutes_before_the_newest_report_count(registry: RunningRegistry) -> None:
    ada, adapters = registry.as_(), registry.as_("acme", Scope.LEDGER_WRITE)
    await ada.register(make_spec())
    await adapters.record(make_facts("calculator", p50_s=60, p95_s=60), reporter="one")
    registry.clock.advance(timedelta(minutes=10, seconds=1))
    await adapters.record(make_facts("calculator", p50_s=1, p95_s=1), reporter="two")
    assert "[1 s" in f"[{(await ada.resolve()).toolset.tools[0].terms.split(', ')[1]}"


async def test_a_tool_that_nobody_calls_is_known_for_a_week(registry: RunningRegistry) -> None:
    ada, adapters = registry.as_(), registry.as_("acme", Scope.LEDGER_WRITE)
    await ada.register(make_spec())
    await adapters.record(make_facts("calculator"))
    # The window of the process ran empty.
    await adapters.record(make_facts("calculator", count=0))
    registry.clock.advance(timedelta(days=6, hours=23))
    assert "1-2 s" in (await ada.resolve()).toolset.tools[0].terms
    registry.clock.advance(timedelta(hours=2))
    assert "latency unknown" in (await ada.resolve()).toolset.tools[0].terms


async def test_facts_of_shared_tools_are_shared_and_of_own_tools_are_not(
    registry: RunningRegistry,
) -> None:
    await registry.platform().register(make_spec("weather"), shared=True)
    for tenant in ("acme", "globex"):
        await registry.as_(tenant).register(make_spec("own"))
    adapters = registry.as_("acme", Scope.LEDGER_WRITE)
    await adapters.record(make_facts("weather"), make_facts("own"))
    listed = await registry.as_("globex").tools.ListToolFacts(pb.ListToolFactsRequest())
    assert [facts.tool_name for facts in listed.facts] == ["weather"]


async def test_a_little_slower_or_one_more_call_changes_no_word(
    registry: RunningRegistry,
) -> None:
    ada, adapters = registry.as_(), registry.as_("acme", Scope.LEDGER_WRITE)
    await ada.register(make_spec())
    await adapters.record(make_facts("calculator"))
    before = (await ada.resolve()).toolset
    await adapters.record(make_facts("calculator", count=401, p50_s=0.9, p95_s=2.2))
    assert (await ada.resolve()).toolset == before
    await adapters.record(make_facts("calculator", count=402, p50_s=9_000, p95_s=9_000))
    assert "8949 s" in (await ada.resolve()).toolset.tools[0].terms


async def test_what_one_process_saw_under_two_tenants_is_added_up(
    registry: RunningRegistry,
) -> None:
    await registry.platform().register(make_spec("weather"), shared=True)
    for tenant, count in (("acme", 100), ("globex", 300), ("globex", 200)):
        adapters = registry.as_(tenant, Scope.LEDGER_WRITE)
        await adapters.record(make_facts("weather", count=count), reporter="one")
    reply = await registry.as_("newcomer").tools.ListToolFacts(pb.ListToolFactsRequest())
    assert [facts.sample_count for facts in reply.facts] == [300]


async def test_only_the_platforms_own_processes_report(registry: RunningRegistry) -> None:
    await registry.as_().register(make_spec())
    error = await rejected(registry.as_().record(make_facts("calculator")))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    adapters = registry.as_("acme", Scope.LEDGER_WRITE)
    contradictory = make_facts("calculator")
    contradictory.sample_count += 1
    assert (await rejected(adapters.record(contradictory))).code() == (
        grpc.StatusCode.INVALID_ARGUMENT
    )
    assert (await rejected(adapters.record(make_facts("nothing")))).code() == (
        grpc.StatusCode.NOT_FOUND
    )

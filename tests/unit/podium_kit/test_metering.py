"""Usage: its reports by providers, its sums, its prices; latencies in a histogram."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.metering import (
    Dimension,
    InvalidPriceFactors,
    InvalidUsage,
    LatencyHistogram,
    PriceFactors,
    Quantity,
    Usage,
    UsageSource,
)
from podium_kit.metering.usage_reports import (
    anthropic_usage,
    estimated_usage,
    merged_report,
    openai_responses_usage,
    openai_usage,
    vllm_usage,
)
from podium_kit.money import Money

Reader = Callable[..., Usage | None]
READERS = {
    openai_usage: ("prompt_tokens", "completion_tokens"),
    vllm_usage: ("prompt_tokens", "completion_tokens"),
    openai_responses_usage: ("input_tokens", "output_tokens"),
    anthropic_usage: ("input_tokens", "output_tokens"),
}
counts = st.integers(min_value=0, max_value=10_000_000)
# What servers write where a count belongs.
hostile = st.one_of(
    counts, st.none(), st.integers(-5, -1), st.just(True), st.just("12"), st.just(1.5), st.just({})
)


def read(reader: Reader, report: Mapping[str, Any], request_id: object = "") -> Usage:
    usage = reader(report, request_id)
    assert usage is not None
    return usage


def amounts(usage: Usage) -> dict[str, int]:
    return {entry.dimension.value: int(entry.amount) for entry in usage.quantities}


def total(usage: Usage) -> Decimal:
    return sum((entry.amount for entry in usage.quantities), Decimal(0))


def details(*names: str) -> st.SearchStrategy[Any]:
    fields = st.fixed_dictionaries({}, optional=dict.fromkeys(names, hostile))
    return st.one_of(st.none(), st.just([]), fields)


@st.composite
def chat_reports(draw: st.DrawFn) -> dict[str, Any]:
    """Also reports whose parts are larger than the whole, or no numbers at all."""
    prompt, completion = draw(counts), draw(counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": draw(
            details("cached_tokens", "audio_tokens", "cache_write_tokens")
        ),
        "completion_tokens_details": draw(
            details("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens")
        ),
    }


@pytest.mark.parametrize("reader", [openai_usage, vllm_usage])
@given(report=chat_reports())
def test_the_quantities_of_a_chat_add_up_to_its_total(
    reader: Reader, report: dict[str, Any]
) -> None:
    usage = read(reader, report)
    assert total(usage) == report["total_tokens"]
    assert usage.source is UsageSource.PROVIDER


@given(
    prompt=counts,
    output=counts,
    inside=details("cached_tokens", "cache_write_tokens"),
    outside=details("reasoning_tokens"),
)
def test_the_quantities_of_a_response_add_up_to_its_total(
    prompt: int, output: int, inside: Any, outside: Any
) -> None:
    report = {
        "input_tokens": prompt,
        "output_tokens": output,
        "input_tokens_details": inside,
        "output_tokens_details": outside,
    }
    assert total(read(openai_responses_usage, report)) == prompt + output


@given(fresh=counts, cached=counts, short=counts, long=counts, written=counts)
def test_anthropics_quantities_add_up_to_all_it_counted(
    fresh: int, cached: int, short: int, long: int, written: int
) -> None:
    report = {
        "input_tokens": fresh,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": short + long,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": written,
    }
    usage = read(anthropic_usage, report)
    assert total(usage) == fresh + cached + short + long + written
    assert usage.get(Dimension.CACHE_WRITE_LONG) == long


@pytest.mark.parametrize(("reader", "names"), READERS.items())
@given(prompt=counts, output=counts, ticks=st.integers(0, 10**13))
def test_a_reported_cost_is_read_beside_the_tokens_and_changes_none_of_them(
    reader: Reader, names: tuple[str, str], prompt: int, output: int, ticks: int
) -> None:
    report: dict[str, Any] = {names[0]: prompt, names[1]: output}
    tokens = read(reader, report).quantities
    cost = Decimal(ticks).scaleb(-10)
    for stated in ({"cost_in_usd_ticks": ticks}, {"cost": float(cost)}):
        usage = read(reader, report | stated)
        # The float of so few digits has them all.
        assert usage.quantities == (*tokens, Quantity(Dimension.PROVIDER_COST, cost))


@pytest.mark.parametrize(
    ("stated", "cost"),
    [
        ({"cost": 0}, "0"),
        ({"cost": 1.0800000000000001e-05}, "0.0000108"),
        # With the caller's own key OpenRouter's cost is its fee.
        (
            {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}},
            "0.21",
        ),
        ({"cost": 0.01, "is_byok": False, "cost_details": {"upstream_inference_cost": 9}}, "0.01"),
        ({"cost": 0.01, "is_byok": True, "cost_details": {}}, None),
        ({"cost": {"total_cost": 1}}, None),
        *(({"cost": value}, None) for value in (None, True, "0.1", -1, float("nan"), 1e300)),
    ],
)
def test_a_cost_is_read_only_where_it_is_what_the_call_costs(
    stated: dict[str, Any], cost: str | None
) -> None:
    usage = read(openai_usage, {"prompt_tokens": 1, "completion_tokens": 1} | stated)
    assert usage.has_provider_cost == (cost is not None)
    assert usage.get(Dimension.PROVIDER_COST) == Decimal(cost or 0)


def test_cached_tokens_are_taken_out_of_the_prompt_not_added_to_it() -> None:
    """Langfuse counted them twice (langfuse#10592, #5568)."""
    report = {
        "prompt_tokens": 1000,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 900},
    }
    expected = {"input_fresh": 100, "cache_read": 900, "output_text": 5}
    assert amounts(read(openai_usage, report)) == expected
    assert amounts(read(vllm_usage, report)) == expected
    as_response = {
        "input_tokens": 1000,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 900},
    }
    assert amounts(read(openai_responses_usage, as_response)) == expected


def test_anthropics_cache_is_counted_beside_its_input() -> None:
    """Read as OpenAI's it would be a negative fresh input (LiteLLM#42663)."""
    report = {
        "input_tokens": 10,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50,
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 2},
    }
    assert amounts(read(anthropic_usage, report)) == {
        "input_fresh": 10,
        "cache_read": 900,
        "cache_write_short": 50,
        "output_text": 5,
        "search": 2,
    }


def test_openais_cache_writes_are_taken_out_of_the_prompt() -> None:
    details = {"cached_tokens": 0, "cache_write_tokens": 4012}
    report = {"prompt_tokens": 4020, "completion_tokens": 4, "prompt_tokens_details": details}
    assert amounts(read(openai_usage, report)) == {
        "input_fresh": 8,
        "cache_write_short": 4012,
        "output_text": 4,
    }


def test_more_cached_tokens_than_the_prompt_has_are_cut_to_it() -> None:
    report = {
        "prompt_tokens": 10,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 500, "audio_tokens": 500},
    }
    assert amounts(read(openai_usage, report)) == {"cache_read": 10, "output_text": 1}


def test_reasoning_is_inside_the_output_and_never_lost_or_added() -> None:
    """Langfuse left it out (langfuse#12531)."""
    chat = {
        "prompt_tokens": 1,
        "completion_tokens": 500,
        "completion_tokens_details": {"reasoning_tokens": 400},
    }
    response = {
        "input_tokens": 1,
        "output_tokens": 500,
        "output_tokens_details": {"reasoning_tokens": 400},
    }
    for usage in (read(openai_usage, chat), read(openai_responses_usage, response)):
        assert amounts(usage) == {"input_fresh": 1, "output_text": 100, "reasoning": 400}


@pytest.mark.parametrize(("reader", "names"), READERS.items())
def test_an_explicit_zero_is_a_count_and_not_a_missing_report(
    reader: Reader, names: tuple[str, str]
) -> None:
    """LiteLLM replaced it by an estimate (LiteLLM#37992)."""
    usage = read(reader, dict.fromkeys(names, 0))
    assert usage.quantities == ()
    assert usage.source is UsageSource.PROVIDER


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "report",
    [{}, {"usage": 3}, {"prompt_tokens": None, "input_tokens": None}, {"input_tokens": "7"}],
)
def test_a_report_that_counts_nothing_is_no_report(reader: Reader, report: dict[str, Any]) -> None:
    assert reader(report) is None


@pytest.mark.parametrize(("reader", "names"), READERS.items())
@pytest.mark.parametrize("request_id", [None, 7, {"id": "x"}])
def test_an_id_that_is_null_or_no_text_is_no_id(
    reader: Reader, names: tuple[str, str], request_id: object
) -> None:
    """The word "None" was an id that calls shared, and their rows were dropped
    (LiteLLM#39749)."""
    report = dict.fromkeys(names, 1)
    assert read(reader, report, request_id).provider_request_id == ""
    assert read(reader, report, "chatcmpl-1").provider_request_id == "chatcmpl-1"


@pytest.mark.parametrize(("reader", "names"), READERS.items())
@pytest.mark.parametrize("value", [True, "12", 1.5, [], {}])
def test_what_is_no_count_counts_nothing(
    reader: Reader, names: tuple[str, str], value: object
) -> None:
    assert amounts(read(reader, {names[0]: value, names[1]: 4})) == {"output_text": 4}


@pytest.mark.parametrize(("reader", "names"), READERS.items())
@pytest.mark.parametrize("value", [-3, 10**17, 10**400, float("nan"), float("inf"), -0.5])
def test_a_number_no_model_can_reach_is_unusable_and_says_why(
    reader: Reader, names: tuple[str, str], value: float
) -> None:
    usage = read(reader, {names[0]: 9, names[1]: value}, "chatcmpl-1")
    assert (usage.quantities, usage.provider_request_id) == ((), "chatcmpl-1")
    assert f"as {names[1]}" in usage.unusable_reason
    assert len(usage.unusable_reason) < 200


def test_a_part_beside_the_total_is_bounded_too() -> None:
    report = {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 10**17}
    assert "as cache_read" in read(anthropic_usage, report).unusable_reason


def test_vllm_reports_a_request_cut_before_its_first_token_by_the_prompt_alone() -> None:
    assert amounts(read(vllm_usage, {"prompt_tokens": 9, "total_tokens": 9})) == {"input_fresh": 9}
    report = {"prompt_tokens": 9, "total_tokens": 12, "completion_tokens": None}
    assert amounts(read(vllm_usage, report)) == {"input_fresh": 9}
    without = {"prompt_tokens": 9, "total_tokens": 12}
    assert amounts(read(vllm_usage, without)) == {"input_fresh": 9, "output_text": 3}


def test_reasoning_that_is_counted_beside_the_completion_is_used_too() -> None:
    """xAI names it, Gemini has it in the total alone (any-llm#1290)."""
    report: dict[str, Any] = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
    assert amounts(read(openai_usage, report)) == {"input_fresh": 32, "output_text": 103}
    report["completion_tokens_details"] = {"reasoning_tokens": 94}
    used = {"input_fresh": 32, "output_text": 9, "reasoning": 94}
    assert amounts(read(openai_usage, report)) == used
    assert amounts(read(openai_usage, report | {"total_tokens": 7})) == {
        "input_fresh": 32,
        "reasoning": 9,
    }
    assert "as output_text" in read(openai_usage, report | {"total_tokens": 10**17}).unusable_reason


def test_usage_twice_in_a_stream_is_counted_once() -> None:
    """Some servers repeat the running total with every chunk (LiteLLM#6633)."""
    merged: dict[str, Any] = {}
    for written in (1, 2, 3):
        chunk = {"prompt_tokens": 8, "completion_tokens": written, "total_tokens": 8 + written}
        merged = merged_report(merged, chunk)
    assert amounts(read(openai_usage, merged)) == {"input_fresh": 8, "output_text": 3}


def test_anthropics_start_and_end_of_a_stream_are_one_report() -> None:
    start = {
        "input_tokens": 10,
        "cache_read_input_tokens": 90,
        "cache_creation": {"ephemeral_1h_input_tokens": 7},
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    end = {"output_tokens": 50, "input_tokens": 0, "cache_read_input_tokens": None}
    assert amounts(read(anthropic_usage, merged_report(start, end))) == {
        "input_fresh": 10,
        "cache_read": 90,
        "cache_write_long": 7,
        "output_text": 50,
    }


@given(chat_reports())
def test_a_repeated_report_changes_nothing(report: dict[str, Any]) -> None:
    once = merged_report({}, report)
    assert read(openai_usage, merged_report(once, report)) == read(openai_usage, report)
    assert merged_report(once, None) == merged_report(once, ["no report"]) == once


def test_an_estimate_says_that_it_is_one() -> None:
    usage = estimated_usage("five!", "")
    assert usage.source is UsageSource.ESTIMATED
    assert usage.get(Dimension.INPUT_FRESH) == 2


def test_an_id_that_the_ledger_could_not_store_is_cleaned_and_cut() -> None:
    usage = read(
        openai_usage, {"prompt_tokens": 1, "completion_tokens": 1}, "a\x00\ud83d" + "b" * 999
    )
    assert usage.provider_request_id == "a\ufffd\ufffd" + "b" * 253


def test_reports_within_reports_end_somewhere() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"usage": deep}
    merged, depth = merged_report({}, deep), 0
    while merged := merged.get("usage", {}):
        depth += 1
    assert depth < 20


AMOUNTS = st.decimals(0, 10**12, places=6)
USAGES = st.dictionaries(st.sampled_from(Dimension), AMOUNTS).map(
    lambda amounts: Usage(
        tuple(Quantity(name, amount) for name, amount in amounts.items()), UsageSource.MEASURED
    )
)


@pytest.mark.parametrize("amount", ["-1", "-0.000001", "NaN", "sNaN", "Infinity", "-Infinity"])
def test_quantity_that_cannot_be_priced_is_rejected(amount: str) -> None:
    with pytest.raises(InvalidUsage, match="call is"):
        Quantity(Dimension.CALL, Decimal(amount))


def test_dimension_counted_twice_is_rejected() -> None:
    twice = (Quantity(Dimension.CALL, Decimal(1)), Quantity(Dimension.CALL, Decimal(2)))
    with pytest.raises(InvalidUsage, match="twice"):
        Usage(twice, UsageSource.PROVIDER)


@given(USAGES)
def test_get_answers_every_dimension_and_zero_for_the_unused(usage: Usage) -> None:
    used = {entry.dimension: entry.amount for entry in usage.quantities}
    for dimension in Dimension:
        assert usage.get(dimension) == used.get(dimension, 0)


@pytest.mark.parametrize("dimension", Dimension)
def test_of_names_dimensions_by_their_value(dimension: Dimension) -> None:
    usage = Usage.of(UsageSource.MEASURED, **{dimension.value: "0.25"})
    assert usage.quantities == (Quantity(dimension, Decimal("0.25")),)


def test_of_leaves_zeros_out() -> None:
    usage = Usage.of(UsageSource.MEASURED, call=1, reasoning=0)
    assert [entry.dimension for entry in usage.quantities] == [Dimension.CALL]


@given(st.lists(USAGES, max_size=6))
def test_total_sums_each_dimension_in_the_order_of_dimension(usages: list[Usage]) -> None:
    total = Usage.total(usages)
    for entry in total:
        assert entry.amount == sum(usage.get(entry.dimension) for usage in usages)
    named = {entry.dimension for usage in usages for entry in usage.quantities}
    # A cost of some calls would be charged in place of what all of them used.
    if not all(usage.has_provider_cost for usage in usages if usage.quantities):
        named.discard(Dimension.PROVIDER_COST)
    assert [entry.dimension for entry in total] == [name for name in Dimension if name in named]


COSTS = st.decimals(0, 1000, places=12)


def test_a_sku_without_a_factor_keeps_its_price() -> None:
    factors = PriceFactors.read({"tool/a": "2.5"})
    assert factors.cost(Money(Decimal("0.02"), "EUR"), "tool/a") == Money(Decimal("0.05"), "EUR")
    assert factors.cost(Money(Decimal("0.02"), "EUR"), "tool/b") == Money(Decimal("0.02"), "EUR")


def test_an_unknown_cost_stays_unknown() -> None:
    assert PriceFactors.read({"tool/a": "2"}).cost(None, "tool/a") is None


@given(COSTS, COSTS, st.decimals("0.001", 1000, places=3))
def test_factors_keep_the_order_of_costs(one: Decimal, other: Decimal, factor: Decimal) -> None:
    factors = PriceFactors.read({"a": str(factor)})
    costs = [factors.cost(Money(amount, "USD"), "a") for amount in sorted((one, other))]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] <= costs[1]


@pytest.mark.parametrize("text", ["", "two", "0", "-1", "NaN", "Infinity", "1001", "0.0009"])
def test_a_factor_that_is_no_price_is_rejected(text: str) -> None:
    with pytest.raises(InvalidPriceFactors, match="price factor of tool/a"):
        PriceFactors.read({"tool/a": text})


def test_more_factors_than_a_catalogue_has_prices_are_rejected() -> None:
    with pytest.raises(InvalidPriceFactors, match="at most 1000"):
        PriceFactors.read({str(number): "1" for number in range(1001)})


LATENCIES = st.lists(st.floats(1e-5, 3600), min_size=1, max_size=60)


@given(LATENCIES, st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_quantile_is_within_one_percent_of_the_sample_at_its_rank(
    latencies_s: list[float], share: float
) -> None:
    true_s = sorted(latencies_s)[int(share * (len(latencies_s) - 1))]
    estimate_s = LatencyHistogram.of(latencies_s).quantile_s(share)
    assert abs(estimate_s - true_s) <= 0.0101 * true_s


@given(LATENCIES, LATENCIES)
def test_merging_is_counting_everything_in_one_place(one: list[float], other: list[float]) -> None:
    merged = LatencyHistogram.of(one)
    merged.merge(LatencyHistogram.of(other))
    assert merged.counts == LatencyHistogram.of([*one, *other]).counts


def test_unlike_processes_merge_to_the_true_quantile_where_means_of_quantiles_fail() -> None:
    fast, slow = [0.1] * 90, [10.0] * 10
    merged = LatencyHistogram.of(fast)
    merged.merge(LatencyHistogram.of(slow))
    # A mean of the two medians, weighed by calls, would say 1.09 s.
    assert abs(merged.quantile_s(0.5) - 0.1) < 0.002
    assert abs(merged.quantile_s(0.95) - 10) < 0.2


def test_nothing_measured_has_the_quantile_zero() -> None:
    assert LatencyHistogram().quantile_s(0.5) == 0

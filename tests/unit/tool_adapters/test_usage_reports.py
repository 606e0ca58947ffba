"""Provider reports become disjoint quantities that add up to what the provider counted."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metering import Dimension, UsageSource
from tool_adapters.usage_reports import anthropic_usage, estimated_usage, openai_usage

counts = st.integers(min_value=0, max_value=10_000_000)
missing = st.one_of(counts, st.none())


@st.composite
def openai_reports(draw: st.DrawFn) -> dict[str, Any]:
    """Also reports whose parts are larger than the whole."""
    prompt, completion = draw(counts), draw(counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": draw(
            st.none() | st.fixed_dictionaries({"cached_tokens": missing, "audio_tokens": missing})
        ),
        "completion_tokens_details": draw(
            st.none()
            | st.fixed_dictionaries({"reasoning_tokens": missing, "audio_tokens": missing})
        ),
    }


@given(openai_reports())
def test_openais_quantities_add_up_to_its_total(report: dict[str, Any]) -> None:
    usage = openai_usage(report, "id")
    assert sum(entry.amount for entry in usage.quantities) == report["total_tokens"]
    assert usage.source is UsageSource.PROVIDER


@given(fresh=counts, read=counts, short=counts, long=counts, written=counts)
def test_anthropics_quantities_add_up_to_all_it_counted(
    fresh: int, read: int, short: int, long: int, written: int
) -> None:
    usage = anthropic_usage(
        {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": short + long,
            "cache_creation": {
                "ephemeral_5m_input_tokens": short,
                "ephemeral_1h_input_tokens": long,
            },
            "output_tokens": written,
        }
    )
    assert sum(entry.amount for entry in usage.quantities) == fresh + read + short + long + written
    assert usage.get(Dimension.CACHE_WRITE_1H) == long


def test_openais_cached_and_reasoning_tokens_are_taken_out_of_their_totals() -> None:
    usage = openai_usage(
        {
            "prompt_tokens": 1000,
            "completion_tokens": 500,
            "prompt_tokens_details": {"cached_tokens": 900},
            "completion_tokens_details": {"reasoning_tokens": 400},
        }
    )
    assert usage.get(Dimension.INPUT_FRESH) == 100
    assert usage.get(Dimension.CACHE_READ) == 900
    assert usage.get(Dimension.OUTPUT_TEXT) == 100
    assert usage.get(Dimension.REASONING) == 400


def test_anthropics_cache_is_counted_beside_its_input() -> None:
    usage = anthropic_usage(
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 50,
            "output_tokens": 5,
            "server_tool_use": {"web_search_requests": 2},
        }
    )
    assert usage.get(Dimension.INPUT_FRESH) == 10
    assert usage.get(Dimension.CACHE_READ) == 900
    assert usage.get(Dimension.CACHE_WRITE_5M) == 50
    assert usage.get(Dimension.SEARCH) == 2


def test_an_estimate_says_that_it_is_one() -> None:
    usage = estimated_usage("five!", "")
    assert usage.source is UsageSource.ESTIMATED
    assert usage.get(Dimension.INPUT_FRESH) == 2

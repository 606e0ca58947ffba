from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_ledger.audit.models import OtherPrices
from cost_ledger.errors import InvalidMonth, InvalidPrice, InvalidReport
from cost_ledger.exports.models import Month
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.prices.components import (
    PriceComponent,
    TokenBand,
    WeeklyHours,
    minute_of,
    time_text,
)
from cost_ledger.prices.models import Period, PriceHistory, PriceVersion
from cost_ledger.prices.specs import PriceKey, PriceSpec
from cost_ledger.spend.models import LAST_DAY, SpendReport
from podium_kit.metering import PROMPT_TOKENS, Dimension, Quantity, Usage, UsageSource
from podium_kit.money import Money

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(NOW, NOW + timedelta(hours=1))
QUANTITIES = st.decimals(0, Decimal(10) ** 15, places=6)
UNIT_PRICES = st.decimals(0, Decimal(10) ** 6, places=18)
PERS = st.sampled_from([Decimal(1), Decimal(3), Decimal(1000), Decimal(1_000_000)])
COMPONENTS = st.builds(PriceComponent, st.just(Dimension.OUTPUT_TEXT), UNIT_PRICES, PERS)


def tokens(unit_price: str, dimension: Dimension = Dimension.OUTPUT_TEXT) -> PriceComponent:
    return PriceComponent(dimension, Decimal(unit_price), Decimal(1_000_000))


@given(COMPONENTS, QUANTITIES)
def test_an_amount_is_the_exact_product_rounded_half_even_once(
    component: PriceComponent, quantity: Decimal
) -> None:
    exact = Fraction(quantity) * Fraction(component.unit_price) / Fraction(component.per)
    units = round(exact * 10**12)  # Python rounds fractions half-even
    assert Fraction(component.amount_of(quantity)) == Fraction(units, 10**12)


@given(COMPONENTS, QUANTITIES, QUANTITIES)
def test_more_never_costs_less(component: PriceComponent, one: Decimal, other: Decimal) -> None:
    fewer, more = sorted((one, other))
    assert component.amount_of(fewer) <= component.amount_of(more)


@given(
    st.decimals(Decimal("0.01"), 100, places=4),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.decimals(0, 1000, places=12),
)
def test_the_fitting_output_is_the_largest_that_fits(
    unit_price: Decimal, input_tokens: int, output_tokens: int, remaining: Decimal
) -> None:
    version = make_version(
        tokens("1.25", Dimension.INPUT_FRESH), tokens(str(unit_price), Dimension.OUTPUT_TEXT)
    )

    def cost(output: int) -> Decimal:
        return version.worst_cost(worst_case(input_tokens, output), PERIOD).amount

    asked = worst_case(input_tokens, output_tokens)
    fitting = version.fitting_output_tokens(asked, Money(remaining, "USD"), PERIOD)
    if fitting is None:
        assert output_tokens == 0 or cost(1) > remaining
    else:
        assert 1 <= fitting <= output_tokens
        assert cost(fitting) <= remaining
        assert fitting == output_tokens or cost(fitting + 1) > remaining


def worst_case(input_tokens: int, output_tokens: int) -> tuple[Quantity, ...]:
    return (
        Quantity(Dimension.INPUT_FRESH, Decimal(input_tokens)),
        Quantity(Dimension.OUTPUT_TEXT, Decimal(output_tokens)),
    )


def test_ten_calls_at_three_ten_thousandths_are_three_thousandths() -> None:
    component = PriceComponent(Dimension.CALL, Decimal("0.0003"), Decimal(1))
    cost = make_version(component).cost((Quantity(Dimension.CALL, Decimal(1)),), NOW)
    total = sum((cost.amount for _ in range(10)), Decimal(0))
    assert total == Decimal("0.003")


@pytest.mark.parametrize(
    ("quantities", "expected"),
    [
        # A model reports tokens and no call.
        ({"output_text": 1_000_000}, "5.002"),
        ({"output_text": 1_000_000, "call": 3}, "5.006"),
        ({"output_text": 1_000_000, "provider_cost": 4}, "4"),
        # Nothing was sent.
        ({}, "0"),
    ],
)
def test_a_price_of_calls_counts_the_one_that_a_usage_leaves_out(
    quantities: dict[str, int], expected: str
) -> None:
    version = make_version(
        tokens("5"),
        PriceComponent(Dimension.CALL, Decimal("0.002"), Decimal(1)),
        PriceComponent(Dimension.PROVIDER_COST, Decimal(1), Decimal(1)),
    )
    counted = version.with_call(used(**quantities))
    assert version.cost(counted, NOW) == Money(Decimal(expected), "USD")


def test_components_are_added_and_other_dimensions_cost_nothing() -> None:
    version = make_version(
        tokens("1.25", Dimension.INPUT_FRESH), tokens("0.125", Dimension.CACHE_READ)
    )
    cost = version.cost(
        (
            Quantity(Dimension.INPUT_FRESH, Decimal(1000)),
            Quantity(Dimension.CACHE_READ, Decimal(8000)),
            Quantity(Dimension.IMAGE, Decimal(3)),
        ),
        NOW,
    )
    assert cost == Money(Decimal("0.00225"), "USD")


@pytest.mark.parametrize(
    ("unit_price", "per"),
    [("-1", "1"), ("NaN", "1"), ("1", "0"), ("1", "-5"), ("0.1234567890123456789", "1")],
)
def test_a_price_that_is_not_exact_and_positive_is_rejected(unit_price: str, per: str) -> None:
    with pytest.raises(InvalidPrice):
        PriceComponent(Dimension.CALL, Decimal(unit_price), Decimal(per))


MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WORKDAYS = frozenset(range(5))
# A provider that charges double from 08:30 to 16:30 UTC on weekdays.
PEAK = WeeklyHours(WORKDAYS, 8 * 60 + 30, 16 * 60 + 30)
LONG = 200_000
INSTANTS = st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))
TOKENS = st.integers(0, 1_000_000)
PERIODS = st.tuples(INSTANTS, st.timedeltas(timedelta(0), timedelta(days=20))).map(
    lambda pair: Period(pair[0], pair[0] + pair[1])
)


def per_million(price: str, dimension: Dimension, **conditions: object) -> PriceComponent:
    return PriceComponent(dimension, Decimal(price), Decimal(1_000_000), **conditions)  # type: ignore[arg-type]


INPUT, OUTPUT = Dimension.INPUT_FRESH, Dimension.OUTPUT_TEXT
SHORT_BAND, LONG_BAND = TokenBand(0, LONG), TokenBand(LONG)
BANDED = (
    per_million("1.25", INPUT, band=SHORT_BAND),
    per_million("2.5", INPUT, band=LONG_BAND),
    per_million("10", OUTPUT, band=SHORT_BAND),
    per_million("15", OUTPUT, band=LONG_BAND),
    per_million("0.125", Dimension.CACHE_READ),
)
HOURLY = (per_million("1", INPUT), per_million("2", INPUT, hours=PEAK), per_million("3", OUTPUT))


REPORTED_DOLLAR = PriceComponent(Dimension.PROVIDER_COST, Decimal(1), Decimal(1))


def make_version(*components: PriceComponent, **fields: object) -> PriceVersion:
    defaults = {
        "id": "v1",
        "tenant": "",
        "sku": "sku",
        "currency_code": "USD",
        "start_time": None,
        "end_time": None,
        "source": "",
        "create_time": MONDAY,
    }
    return PriceVersion(components=components, **defaults | fields)  # type: ignore[arg-type]


def make_spec(*components: PriceComponent) -> PriceSpec:
    return PriceSpec(PriceKey("", "sku"), "USD", components, None, None, "")


def used(**amounts: int) -> tuple[Quantity, ...]:
    return tuple(Quantity(Dimension(name), Decimal(amount)) for name, amount in amounts.items())


def cost(
    components: tuple[PriceComponent, ...], at: datetime = MONDAY, /, **amounts: int
) -> Decimal:
    return make_version(*components).cost(used(**amounts), at).amount


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [(LONG - 1, "0.25000875"), (LONG, "0.500015"), (LONG + 1, "0.5000175")],
)
def test_the_size_of_the_prompt_prices_the_whole_call(prompt: int, expected: str) -> None:
    # The band's output price applies too: one output token costs 10 or 15 millionths.
    assert cost(BANDED, input_fresh=prompt, output_text=1) == Decimal(expected)


def test_cached_tokens_count_for_the_size_of_the_prompt() -> None:
    small, large = {"input_fresh": 1}, {"input_fresh": 1, "cache_read": LONG}
    assert cost(BANDED, **large) - cost(BANDED, cache_read=LONG) == 2 * cost(BANDED, **small)


@given(TOKENS, TOKENS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_larger_prompt_or_answer_never_costs_less(
    one: int, other: int, output_one: int, output_other: int
) -> None:
    (fewer, more), (less, longer) = sorted((one, other)), sorted((output_one, output_other))
    smaller = cost(BANDED, input_fresh=fewer, output_text=less)
    assert smaller <= cost(BANDED, input_fresh=more, output_text=longer)


@given(st.decimals(0, 100, places=12), TOKENS, st.integers(0, 10**6))
def test_a_price_charges_the_reported_cost_or_the_tokens_and_never_both(
    reported: Decimal, prompt: int, output: int
) -> None:
    tokens = used(input_fresh=prompt, output_text=output)
    with_cost = (*tokens, Quantity(Dimension.PROVIDER_COST, reported))
    by_tokens, by_report = make_version(*BANDED), make_version(*BANDED, REPORTED_DOLLAR)
    assert by_report.cost(with_cost, MONDAY).amount == reported
    assert by_tokens.cost(with_cost, MONDAY) == by_tokens.cost(tokens, MONDAY)
    # What was not reported is not free.
    assert by_report.cost(tokens, MONDAY) == by_tokens.cost(tokens, MONDAY)
    assert by_report.worst_cost(tokens, PERIOD) == by_tokens.worst_cost(tokens, PERIOD)


ATTEMPTS = st.lists(
    st.tuples(TOKENS, st.none() | st.decimals(0, 100, places=12)), min_size=1, max_size=5
)


@given(ATTEMPTS)
def test_attempts_that_are_charged_together_lose_none_of_them(
    attempts: list[tuple[int, Decimal | None]],
) -> None:
    price = make_version(per_million("1.25", INPUT), REPORTED_DOLLAR)
    usages = [
        Usage(
            (
                *used(input_fresh=tokens),
                *([] if cost is None else [Quantity(Dimension.PROVIDER_COST, cost)]),
            ),
            UsageSource.PROVIDER,
        )
        for tokens, cost in attempts
    ]
    charged = price.cost(Usage.total(usages), MONDAY).amount
    costs = [cost for _, cost in attempts if cost is not None]
    if len(costs) == len(attempts):
        assert charged == sum(costs)
    else:
        assert charged == price.cost(used(input_fresh=sum(n for n, _ in attempts)), MONDAY).amount


@given(
    st.tuples(TOKENS, TOKENS, TOKENS).filter(lambda parts: sum(parts) < LONG),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_within_a_band_split_calls_cost_what_one_call_costs(
    parts: tuple[int, int, int], output_one: int, output_other: int
) -> None:
    first, second, cached = parts
    whole = cost(
        BANDED,
        input_fresh=first + second,
        cache_read=cached,
        output_text=output_one + output_other,
    )
    one = cost(BANDED, input_fresh=first, cache_read=cached, output_text=output_one)
    assert whole == one + cost(BANDED, input_fresh=second, output_text=output_other)


@given(INSTANTS, TOKENS)
def test_hours_replace_the_price_at_all_times_and_only_then(at: datetime, tokens: int) -> None:
    minute = at.hour * 60 + at.minute
    peak = at.weekday() < 5 and 510 <= minute < 990
    assert cost(HOURLY, at, input_fresh=tokens) == tokens * Decimal(2 if peak else 1) / 10**6
    assert cost(HOURLY, at, output_text=tokens) == tokens * Decimal(3) / 10**6


def test_hours_are_read_in_utc_whatever_the_zone_of_the_time() -> None:
    before, first = MONDAY + timedelta(hours=8, minutes=29), MONDAY + timedelta(hours=8, minutes=30)
    last, after = MONDAY + timedelta(hours=16, minutes=29), MONDAY + timedelta(hours=16, minutes=30)
    assert [PEAK.hold_at(moment) for moment in (before, first, last, after)] == [
        False,
        True,
        True,
        False,
    ]
    assert PEAK.hold_at(datetime.fromisoformat("2026-03-02T03:30:00-05:00"))
    assert not PEAK.hold_at(datetime.fromisoformat("2026-03-07T12:00:00+00:00"))


@given(PERIODS, st.floats(0, 1), TOKENS, st.integers(0, 10**6), st.floats(0, 1))
def test_no_call_costs_more_than_its_worst_case(
    period: Period, when: float, tokens: int, output: int, share: float
) -> None:
    components = (*HOURLY, per_million("9", Dimension.REASONING))
    per_call = PriceComponent(Dimension.CALL, Decimal("0.002"), Decimal(1))
    for prices in (components, BANDED, (*components, per_call)):
        version = make_version(*prices)
        worst = version.worst_cost(used(input_fresh=tokens, output_text=output), period)
        reasoning = int(output * share)
        real = used(
            input_fresh=int(tokens * share),
            cache_read=tokens - int(tokens * share),
            reasoning=reasoning,
            output_text=output - reasoning,
        )
        at = period.start + (period.end - period.start) * when
        assert version.cost(version.with_call(real), at) <= worst


@given(PERIODS)
def test_hours_touch_a_period_when_they_hold_at_a_minute_of_it(period: Period) -> None:
    minutes = int((period.end - period.start) / timedelta(minutes=1))
    moments = (period.start + timedelta(minutes=n) for n in range(0, min(minutes, 7 * 1440) + 1))
    if any(PEAK.hold_at(moment) for moment in moments):
        assert PEAK.hold_within(period.start, period.end)
    elif minutes > 3 * 1440:
        raise AssertionError("three days without a working hour")


@given(st.sampled_from(sorted(PROMPT_TOKENS)), TOKENS)
def test_prompt_tokens_without_a_price_of_their_own_cost_what_fresh_input_costs(
    dimension: Dimension, tokens: int
) -> None:
    assert cost(HOURLY, **{dimension.value: tokens}) == cost(HOURLY, input_fresh=tokens)


@pytest.mark.parametrize(
    ("components", "complaint"),
    [
        ((per_million("1", INPUT, band=TokenBand(0, 10)),), "must span 0 to no end"),
        ((per_million("1", INPUT, band=TokenBand(10)),), "must span 0 to no end"),
        (
            (
                per_million("1", INPUT, band=TokenBand(0, 10)),
                per_million("2", INPUT, band=TokenBand(11)),
            ),
            "no price between its bands",
        ),
        (
            (
                per_million("1", INPUT, band=TokenBand(0, 10)),
                per_million("2", INPUT, band=TokenBand(9)),
            ),
            "bands 0..10 and 9.. overlap",
        ),
        ((per_million("1", INPUT), per_million("1", INPUT)), "overlap"),
        ((per_million("1", INPUT, hours=PEAK),), "add one without hours"),
        (
            (
                per_million("1", INPUT),
                per_million("2", INPUT, hours=PEAK),
                per_million("3", INPUT, hours=WeeklyHours(frozenset({4, 5}), 0, 600)),
            ),
            "priced twice in some hours",
        ),
        ((), "has no component"),
        ((REPORTED_DOLLAR,), "lists provider_cost alone"),
    ],
)
def test_a_price_with_gaps_or_doubles_is_rejected(
    components: tuple[PriceComponent, ...], complaint: str
) -> None:
    with pytest.raises(InvalidPrice, match=complaint):
        make_spec(*components)


@pytest.mark.parametrize(
    ("weekdays", "start", "end"),
    [(WORKDAYS, 600, 600), (WORKDAYS, 1380, 60), (frozenset(), 0, 60), (frozenset({7}), 0, 60)],
)
def test_hours_that_are_empty_or_of_no_weekday_are_rejected(
    weekdays: frozenset[int], start: int, end: int
) -> None:
    with pytest.raises(InvalidPrice):
        WeeklyHours(weekdays, start, end)


@given(st.integers(0, 1440))
def test_a_time_of_day_is_read_as_it_is_written(minute: int) -> None:
    assert minute_of(time_text(minute)) == minute


@pytest.mark.parametrize("text", ["8:30", "24:01", "25:00", "noon", "08:60", ""])
def test_what_is_no_time_of_day_is_rejected(text: str) -> None:
    with pytest.raises(InvalidPrice, match="no time of day"):
        minute_of(text)


def test_the_tenants_own_price_comes_before_the_regions_and_both_before_the_list() -> None:
    listed = make_version(per_million("4", INPUT), id="list")
    regional = make_version(per_million("3", INPUT), id="eu", region="eu")
    own = make_version(per_million("2", INPUT), id="own", tenant="acme")
    batch = make_version(per_million("1", INPUT), id="batch", service_class="batch")
    history = PriceHistory((listed, regional, batch, own))
    without_own = PriceHistory((listed, regional, batch))
    found = [
        history.effective(MONDAY, region="eu"),
        without_own.effective(MONDAY, region="eu"),
        without_own.effective(MONDAY, region="us"),
        history.effective(MONDAY, "batch", "us"),
        history.effective(MONDAY, "priority"),
    ]
    ids = [version.id if version else None for version in found]
    assert ids == ["own", "eu", "list", "batch", None]


def test_a_clamp_uses_the_output_price_of_the_prompts_band() -> None:
    version = make_version(*BANDED)
    period = Period(MONDAY, MONDAY)
    asked = used(input_fresh=LONG, output_text=1000)
    # Half a dollar for the prompt leaves 0.0075 at 15 per million.
    assert version.fitting_output_tokens(asked, Money(Decimal("0.5075"), "USD"), period) == 500


@pytest.mark.parametrize("text", ["0000-01", "0001-01", "0999-12", "9999-11", "9999-12"])
def test_a_month_without_months_beside_it_is_rejected(text: str) -> None:
    with pytest.raises(InvalidMonth, match=f"month is '{text}'; write one of 1000-01 to 9998-12"):
        Month.parse(text)


@pytest.mark.parametrize("text", ["1000-01", "9998-12"])
def test_the_first_and_the_last_month_have_months_beside_them(text: str) -> None:
    month = Month.parse(text)
    assert month.moved(-1).start < month.start < month.end < month.next().end


def report_from(start_time: datetime) -> SpendReport:
    return SpendReport((), start_time, None, episode_id="", limit=1, offset=0)


def test_a_report_that_starts_within_the_last_day_is_rejected() -> None:
    with pytest.raises(InvalidReport, match="start_time is after 9999-12-31T00:00:00Z; start"):
        report_from(LAST_DAY + timedelta(hours=1))
    assert report_from(LAST_DAY).first_day == LAST_DAY.date()
    assert report_from(datetime(9999, 12, 30, 1, tzinfo=UTC)).first_day == LAST_DAY.date()


NOVEMBER = datetime(2026, 11, 2, tzinfo=UTC)


def priced_spec(tenant: str, price: str) -> PriceSpec:
    component = PriceComponent(Dimension.CALL, Decimal(price), Decimal(1))
    return PriceSpec(PriceKey(tenant, "search"), "USD", (component,), None, None, "")


def make_call(tenant: str) -> Entry:
    return Entry(
        1,
        EntryKind.RECORD,
        Call(tenant, "k", Subject(), "search"),
        Postings(unit="USD", spend=Decimal(5), payable=Decimal(-5)),
        "v",
        NOVEMBER,
        NOVEMBER,
        Usage.of(UsageSource.MEASURED, call=1),
    )


def test_another_tenants_special_price_does_not_price_a_tenants_calls() -> None:
    specs = [priced_spec("", "3"), priced_spec("acme", "1")]
    for tenant, amount in (("acme", 1), ("beta", 3)):
        (cost,) = OtherPrices(specs, tenant, NOVEMBER).simulate([make_call(tenant)])
        assert cost.simulated == {"USD": Decimal(amount)}


def test_a_simulated_price_per_call_counts_calls_that_report_tokens_alone() -> None:
    call = replace(make_call("acme"), usage=Usage.of(UsageSource.PROVIDER, output_text=7))
    (cost,) = OtherPrices([priced_spec("", "3")], "acme", NOVEMBER).simulate([call])
    assert cost.simulated == {"USD": Decimal(3)}

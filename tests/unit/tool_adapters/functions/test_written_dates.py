from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind


def answer_of(name: str, **arguments: Any) -> dict[str, Any]:
    answer = FUNCTIONS[name](arguments)
    assert isinstance(answer, dict)
    return answer


def message_of(name: str, **arguments: Any) -> str:
    with pytest.raises(FunctionFailed) as raised:
        FUNCTIONS[name](arguments)
    assert raised.value.failure.kind is FailureKind.INVALID_ARGUMENTS
    return raised.value.failure.message


WRITTEN = [
    "1991-03-17",
    "1991/3/17",
    "19910317",
    "1991-03-17T10:30:00Z",
    "17 March 1991",
    "17 march, 1991",
    "17th March 1991 at 10:30",
    "the 17th of March 1991",
    "the 17th day of March, 1991",
    "the seventeenth of March 1991",
    "on Sunday, 17 March 1991",
    "March seventeenth, 1991",
    "March 17th, 1991",
    "March the 17th, 1991?",
    "Mar. 17 1991",
    "1991, March 17",
    "17-Mar-1991",
    "17/3/1991",
    "3/17/1991",
    "17-03-1991",
    "17.03.1991",
    "17. 3. 1991",
    '"17 March 1991"',
    "17 March 1991 (Sunday)",
    "the third Sunday of March 1991",
    "3rd Sunday in March, 1991",
    "on the third Sun. of March 1991",
]
REJECTED = [
    ("03/04/1991", "3 April 1991 or 4 March 1991"),
    ("3-4-1991", "3 April 1991 or 4 March 1991"),
    ("17 March 91", "four digits"),
    ("17/3/91", "four digits"),
    ("March 1991", "a part is missing"),
    ("17 March", "a part is missing"),
    ("17 March 1991 to 18 March 1991", "17 March 1991"),
    ("31 February 2020", "out of range"),
    ("Friday 17 March 1991", "17 March 1991 is a Sunday"),
    ("the fifth Monday of May 2024", "no such weekday"),
    ("29.02.2023", "out of range"),
    ("today", "no clock"),
    ("next Monday", "no clock"),
    ("Christmas 2020", "names no month"),
    ("1991", "names no month"),
    ("", "at most 60"),
    ("x" * 61, "at most 60"),
]
SPANS = [
    ("3 weeks", "2024-02-21"),
    ("2 months and 5 days", "2024-04-05"),
    ("2 years, 3 months and 4 days", "2026-05-04"),
    ("2 years 3 months", "2026-04-30"),
    ("1,000 days", "2026-10-27"),
    ("90 days", "2024-04-30"),
    ("90 days later", "2024-04-30"),
    ("in ninety days", "2024-04-30"),
    ("-90 days", "2023-11-02"),
    ("90 days before", "2023-11-02"),
    ("90 days earlier", "2023-11-02"),
    ("minus 2 weeks", "2024-01-17"),
    ("a week", "2024-02-07"),
    ("a fortnight", "2024-02-14"),
    ("half a year", "2024-07-31"),
    ("2 1/2 years", "2026-07-31"),
    ("a year and a day", "2025-02-01"),
    ("45-day", "2024-03-16"),
]


@pytest.mark.parametrize("day", WRITTEN)
def test_written_day_is_that_day(day: str) -> None:
    assert answer_of("day_of_week", day=day) == answer_of("day_of_week", day="1991-03-17")
    assert answer_of("days_between", start=day, end="1991-03-18")["days"] == 1


def test_dots_put_the_day_first() -> None:
    assert answer_of("add_to_date", start="03.04.1991")["date"] == "1991-04-03"


@pytest.mark.parametrize(("day", "fix"), REJECTED)
def test_rejected_day_comes_with_its_fix(day: str, fix: str) -> None:
    assert fix in message_of("day_of_week", day=day)


@pytest.mark.parametrize(("duration", "end"), SPANS)
def test_written_span_leads_to_its_day(duration: str, end: str) -> None:
    assert answer_of("add_to_date", start="31 January 2024", duration=duration)["date"] == end


@pytest.mark.parametrize("duration", ["5 business days", "5 hours", "forever", "-", "1.5 months"])
def test_unclear_span_is_rejected(duration: str) -> None:
    assert duration in message_of("add_to_date", start="31 January 2024", duration=duration)


@pytest.mark.parametrize("counted", [{"days": 90}, {"weeks": 12, "days": 6}])
def test_span_that_is_written_twice_counts_once(counted: dict[str, int]) -> None:
    twice = answer_of("add_to_date", start="31 January 2024", duration="90 days", **counted)
    assert twice["date"] == "2024-04-30"


def test_spans_of_opposite_directions_are_rejected() -> None:
    arguments = {"start": "31 January 2024", "duration": "90 days before", "days": 90}
    assert "opposite ways" in message_of("add_to_date", **arguments)


def test_dates_may_come_in_either_order() -> None:
    forth = answer_of("days_between", start="1 January 2024", end="1 March 2024")
    assert forth == answer_of("days_between", start="1 March 2024", end="1 January 2024")
    assert forth["days"] == 60


def test_every_tool_with_a_day_takes_it_as_written() -> None:
    holiday = answer_of("is_public_holiday", country="Germany", day="3 October 2025")
    assert holiday["name"] == "German Unity Day"


@pytest.mark.parametrize(
    "day", ["January 1st, 2025", "January 2025", "in January 2025", "2025-01-01"]
)
def test_moon_is_watched_from_a_day_or_a_month_on(day: str) -> None:
    assert answer_of("next_moon_phase", day=day, phase="full")["utc"] == "2025-01-13 22:26"


@pytest.mark.parametrize("day", ["January", "17 March", "2025", "01/02/2025"])
def test_moon_is_watched_from_no_other_time_on(day: str) -> None:
    assert day in message_of("next_moon_phase", day=day, phase="full")


DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 31))
FORMS = st.sampled_from(
    (
        "{0}",
        "{0:%Y/%m/%d}",
        "{0.day} {0:%B} {0.year}",
        "the {0.day}th of {0:%B}, {0.year}",
        "{0:%b} {0.day}, {0.year}",
        "{0:%A}, {0:%B} {0.day} {0.year}",
        "{0.day}.{0.month}.{0.year}",
    )
)


@given(DAYS, FORMS)
def test_every_form_of_a_day_is_the_same_day(day: date, form: str) -> None:
    assert answer_of("add_to_date", start=form.format(day))["date"] == str(day)


@given(DAYS, st.integers(0, 3000))
def test_span_forth_and_back_ends_where_it_started(day: date, days: int) -> None:
    if (date.max - day).days < days:
        day = date.max - timedelta(days)
    there = answer_of("add_to_date", start=str(day), duration=f"{days:,} days")["date"]
    back = answer_of("add_to_date", start=there, duration=f"{days} days before")["date"]
    assert back == str(day)


PIECES = [*"/-.,", "17", "3", "1991", "March", "of", "the", "T", "10:30", "am", "week", "half a"]
TEXT = st.one_of(st.text(max_size=70), st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join))


@given(TEXT)
def test_no_text_raises_anything_but_a_failure(text: str) -> None:
    for arguments in ({"start": text}, {"start": "2024-01-31", "duration": text}):
        try:
            FUNCTIONS["add_to_date"](arguments)
        except FunctionFailed as failed:
            assert failed.failure.message

"""Calendar arithmetic on the proleptic Gregorian calendar."""

from typing import Annotated, Any

from dateutil.relativedelta import relativedelta
from pydantic import Field

from podium_functions.errors import invalid
from podium_functions.written.dates import (
    TEXT_MAX,
    Day,
    DayOfPair,
    written_pair,
    written_span,
)

Duration = Annotated[
    str,
    Field(
        description="How much later, for example 2 months and 5 days, or 90 days before.",
        max_length=TEXT_MAX,
    ),
]
Amount = Annotated[int, Field(description="How many; negative goes back.", ge=-400_000, le=400_000)]


def days_between(start: DayOfPair, end: DayOfPair) -> dict[str, Any]:
    first, last = sorted(written_pair(start, end))
    difference = relativedelta(last, first)
    return {
        "days": (last - first).days,
        "years": difference.years,
        "months": difference.months,
        "remaining_days": difference.days,
    }


def add_to_date(
    start: Day,
    duration: Duration = "",
    *,
    years: Amount = 0,
    months: Amount = 0,
    weeks: Amount = 0,
    days: Amount = 0,
) -> dict[str, Any]:
    """A date so much later; the 31st becomes the last day of a shorter month."""
    span = written_span(duration) if duration else relativedelta()
    counted = relativedelta(years=years, months=months, weeks=weeks, days=days)
    if span and span == -counted:
        raise invalid(f'"{duration}" and the numbers go opposite ways; write the duration alone')
    # Who writes the same twice means it once.
    if span != counted:
        span += counted
    try:
        result = start + span
    except (ValueError, OverflowError) as error:
        raise invalid("the result is outside of the years 1 to 9999; add less") from error
    return {"date": result.isoformat(), "weekday": f"{result:%A}"}


def day_of_week(day: Day) -> dict[str, Any]:
    return {
        "weekday": f"{day:%A}",
        "iso_week": day.isocalendar().week,
        "day_of_year": day.timetuple().tm_yday,
    }

"""Months and reports at the ends of the calendar are rejected before a date overflows."""

from datetime import UTC, datetime, timedelta

import pytest

from cost_ledger.errors import InvalidMonth, InvalidReport
from cost_ledger.exports.months import Month
from cost_ledger.spend.models import LAST_DAY, SpendReport


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

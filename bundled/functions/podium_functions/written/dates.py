"""Days and spans as people write them: 17 March 1991, 3/17/1991, March 17th; 2 months and 5 days.

What dateutil would guess is rejected: a year of two digits, a missing day or year, and which of the
two numbers of 03/04/1991 is the month. With dots the day stands first, as wherever dates have dots.
There is no today: the tools are pure, so a repeated call has the answer of the first.
"""

import calendar
import re
from datetime import date, datetime
from typing import Annotated

from dateutil.parser import parser, parserinfo
from dateutil.relativedelta import relativedelta, weekday
from pydantic import BeforeValidator, WithJsonSchema

from podium_functions.errors import invalid
from podium_functions.written.numerals import plain_numbers, spelled_ordinals

TEXT_MAX = 60
HELP = 'write day, month and year, for example "17 March 1991"'
_YEAR_FIRST = re.compile(r"(\d{4})([-/. ])(\d{1,2})\2(\d{1,2})(?:[t ]\d.*)?")
_YEAR_LAST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\s?([-/. ])\s?(\d{1,2})\s?\2\s?(\d{1,4})")
_RELATIVE = re.compile(r"\b(?:now|today|tomorrow|yesterday|ago|(?:last|next|this) \w+)\b")
_MONTH = re.compile(r"(?<![a-z])(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_WEEKDAYS = [name.casefold() for name in calendar.day_abbr]
_WEEKDAY = rf"({'|'.join(_WEEKDAYS)})(?:s|nes|rs?|ur)?(?:day)?"
_NAMED_WEEKDAY = re.compile(rf"\b{_WEEKDAY}\b")
_NTH_WEEKDAY = re.compile(
    rf"([1-9])(?:st|nd|rd|th) {_WEEKDAY}[.,]? (?:(?:of|in) )?([a-z]+,? \d{{4}})"
)
# Two days that share nothing: what a text leaves out shows in the difference.
_LEFT_OUT = datetime(2001, 1, 1), datetime(2004, 3, 30)


class _English(parserinfo):
    def __init__(self) -> None:
        self.JUMP = [*parserinfo.JUMP, "the", "day"]
        super().__init__()

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        if not century_specified:
            raise ValueError("the year needs four digits")
        return year


_PARSER = parser(_English())


def written_day(text: object) -> date:
    """The one day a text can mean. Raises FunctionFailed."""
    one, other = _span_of_days(text)
    if one != other:
        raise invalid(f'"{text}" is not one day of the calendar (a part is missing); {HELP}')
    return one


def written_beginning(text: object) -> date:
    """The same, and of a month its first day. Raises FunctionFailed."""
    one, other = _span_of_days(text)
    return one if (one.year, one.month) == (other.year, other.month) else written_day(text)


def written_pair(start: str, end: str) -> tuple[date, date]:
    """Two days, of which one may leave its year to the other: 1 March to 24 December 2025.

    The year is the one that puts start next before end. Raises FunctionFailed.
    """
    left, right = _span_of_days(start), _span_of_days(end)
    if _lacks_year(left) and not _lacks_year(right):
        last = written_day(end)
        years = (last.year, last.year - 1)
        return next(day for day in _in_years(left[0], years, start) if day <= last), last
    if _lacks_year(right) and not _lacks_year(left):
        first = written_day(start)
        years = (first.year, first.year + 1)
        return first, next(day for day in _in_years(right[0], years, end) if day >= first)
    return written_day(start), written_day(end)


def _lacks_year(days: tuple[date, date]) -> bool:
    one, other = days
    return one.year != other.year and (one.month, one.day) == (other.month, other.day)


def _in_years(day: date, years: tuple[int, ...], text: str) -> list[date]:
    try:
        return [day.replace(year=year) for year in years]
    except ValueError as error:
        raise invalid(f'"{text}" has no year; {HELP}') from error


def _span_of_days(text: object) -> tuple[date, date]:
    """The same day twice, or two days that differ in what the text leaves out."""
    if isinstance(text, date):
        return text, text
    if not isinstance(text, str) or not 0 < len(text) <= TEXT_MAX:
        raise invalid(f"a date is a text of at most {TEXT_MAX} characters; {HELP}")
    try:
        return _days(text)
    except (ValueError, OverflowError, ArithmeticError, TypeError, IndexError) as error:
        raise invalid(f'"{text}" is not one day of the calendar ({error}); {HELP}') from error


def _days(text: str) -> tuple[date, date]:
    plain = " ".join(re.sub('["()]', " ", text.casefold()).split())
    plain = re.sub(r"^(?:(?:on|in|the)\s+)+|[\s?.,;!]+$", "", plain)
    if numeric := _YEAR_FIRST.fullmatch(plain):
        return (date(int(numeric[1]), int(numeric[3]), int(numeric[4])),) * 2
    if numeric := _YEAR_LAST.fullmatch(plain):
        first, second, year = (int(numeric[place]) for place in (1, 3, 4))
        return (_numeric(first, second, year, dotted=numeric[2] == "."),) * 2
    if _RELATIVE.search(plain):
        raise ValueError("there is no clock here")
    if not _MONTH.search(plain):
        return (_iso_day(text.strip()),) * 2
    plain = spelled_ordinals(plain).replace("-", " ")
    if nth := _NTH_WEEKDAY.match(plain):
        return (_nth_weekday(int(nth[1]), _WEEKDAYS.index(nth[2]), nth[3]),) * 2
    one, other = (_PARSER.parse(plain, default=default).date() for default in _LEFT_OUT)
    named = _NAMED_WEEKDAY.search(plain)
    if named and one == other and one.weekday() != _WEEKDAYS.index(named[1]):
        raise ValueError(f"{_shown(one)} is a {one:%A}")
    return one, other


def _nth_weekday(number: int, of_week: int, month: str) -> date:
    first = _PARSER.parse(f"1 {month}").date()
    day: date = first + relativedelta(weekday=weekday(of_week)(number))
    if day.month != first.month:
        raise ValueError("the month has no such weekday")
    return day


def _iso_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("it names no month") from error


def _numeric(first: int, second: int, year: int, *, dotted: bool) -> date:
    if year < 100:
        raise ValueError("the year needs four digits")
    if dotted or first > 12 or first == second:
        return date(year, second, first)
    if second > 12:
        return date(year, first, second)
    one, other = (date(year, month, day) for day, month in ((first, second), (second, first)))
    raise ValueError(f"it might be {_shown(one)} or {_shown(other)}")


def _shown(day: date) -> str:
    return f"{day.day} {day:%B} {day.year}"


def _described(description: str) -> WithJsonSchema:
    lengths = {"maxLength": TEXT_MAX, "minLength": 1}
    return WithJsonSchema({"description": description, **lengths, "type": "string"})


Day = Annotated[
    date,
    BeforeValidator(written_day),
    _described("The date as written, for example 17 March 1991."),
]
DayOfPair = Annotated[str, _described("The date as written, for example 17 March 1991.")]
Beginning = Annotated[
    date,
    BeforeValidator(written_beginning),
    _described("The date or month as written, for example 17 March 1991 or March 1991."),
]

# In whole months and in days.
SPANS = {
    "day": (0, 1),
    "week": (0, 7),
    "fortnight": (0, 14),
    "month": (1, 0),
    "quarter": (3, 0),
    "year": (12, 0),
    "decade": (120, 0),
}
ARTICLES = {"a": 1.0, "an": 1.0, "half a": 0.5}
_BACK = re.compile(r"^(?:-|minus\b)|\b(?:before|earlier|ago|back|prior)\b")
_AROUND = re.compile(
    r"^(?:in|after|for|plus|within|minus|-|\+)\s*"
    r"|\b(?:before|earlier|ago|back|prior|after|later|from now|from|forward|hence)\b.*$|[\s.?]+$"
)
_NEXT_SPAN = re.compile(r"(?<!half)(?:,|\band\b|\s)+(?=\d|an?\b|half\b)")
_SPAN = re.compile(rf"({'|'.join(ARTICLES)}|\d+(?:\.\d+)?)[ -]?({'|'.join(SPANS)})s?")


def written_span(text: str) -> relativedelta:
    plain = " ".join(text.casefold().replace("\u2212", "-").split())
    parts = _NEXT_SPAN.split(plain_numbers(_AROUND.sub("", plain).strip()))
    months, days = 0.0, 0.0
    for part in parts:
        span = _SPAN.fullmatch(part)
        if span is None:
            raise invalid(f'"{text}" is no span of days; write it like "2 months and 5 days"')
        number = ARTICLES.get(span[1]) or float(span[1])
        months += number * SPANS[span[2]][0]
        days += number * SPANS[span[2]][1]
    if not (months.is_integer() and days.is_integer()):
        raise invalid(
            f'"{text}" is no whole number of months and days; write both as whole numbers'
        )
    sign = -1 if _BACK.search(plain) else 1
    return relativedelta(months=sign * int(months), days=sign * int(days))

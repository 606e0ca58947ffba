from typing import Any

import pytest

from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind

INVALID = FailureKind.INVALID_ARGUMENTS
NOT_FOUND = FailureKind.NOT_FOUND
LIMIT = FailureKind.LIMIT_EXCEEDED


def failure_of(name: str, arguments: dict[str, Any]) -> tuple[FailureKind, str]:
    with pytest.raises(FunctionFailed) as raised:
        FUNCTIONS[name](arguments)
    return raised.value.failure.kind, raised.value.failure.message


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("1 / 0", FailureKind.TOOL_ERROR),
        ("sqrt(-1)", FailureKind.TOOL_ERROR),
        ("(-8) ** 0.5", FailureKind.TOOL_ERROR),
        ("9 ** 9 ** 9", LIMIT),
        ("10 ** 4000 * 10 ** 4000", LIMIT),
        ("factorial(10 ** 6)", LIMIT),
        ("comb(10 ** 9, 5 * 10 ** 8)", LIMIT),
        ("1e308 * 10", LIMIT),
        ("'x' * 10 ** 9", INVALID),
        ("'%999999999d' % 1", INVALID),
        ("__import__('os').system('id')", INVALID),
        ("(1).__class__", INVALID),
        ("[x for x in (1, 2)]", INVALID),
        ("x", INVALID),
        ("2 +", INVALID),
        ("(" * 500 + "1" + ")" * 500, INVALID),
        ("9**" * 300 + "1", INVALID),
        ("root(-8, 2.5)", FailureKind.TOOL_ERROR),
    ],
)
def test_calculator_rejects(expression: str, kind: FailureKind) -> None:
    assert failure_of("calculator", {"expression": expression})[0] is kind


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        # With more digits Python holds its lock for hours, or fills the memory.
        ("round(5, -9999)", "round takes -4200 to 4200 decimals"),
        ("round(5, ndigits = -9999)", "round takes -4200 to 4200 decimals"),
        ("root(-8, '%9999e5')", "only numbers"),
        ("max('a', 'b')", "only numbers"),
    ],
)
def test_calculator_bounds_what_a_function_is_given(expression: str, words: str) -> None:
    assert words in failure_of("calculator", {"expression": expression})[1]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        (
            "convert_units",
            {"value": 5, "from_unit": "km/h", "to_unit": "kg"},
            INVALID,
            "same kind",
        ),
        ("convert_units", {"value": 5, "from_unit": "blorp", "to_unit": "kg"}, INVALID, "blorp"),
        ("convert_units", {"value": 5, "from_unit": "9**9**9", "to_unit": "kg"}, INVALID, "mile"),
        ("day_of_week", {"day": "July"}, INVALID, "day, month and year"),
        ("add_to_date", {"start": "2024-01-31", "years": 9000}, INVALID, "1 to 9999"),
        ("country_facts", {"country": "Atlantis"}, NOT_FOUND, "Atlantis"),
        ("country_facts", {"nation": "Japan"}, INVALID, "the arguments are country"),
        ("city_facts", {"city": "Nowhereville"}, NOT_FOUND, "spelling"),
        ("city_facts", {"city": "Paris", "country": "Japan"}, NOT_FOUND, "in Japan"),
        ("currency_facts", {"currency": "galleon"}, NOT_FOUND, "ISO 4217"),
        ("airport_facts", {"code": "QQQ"}, NOT_FOUND, "IATA"),
        ("element_facts", {"element": "unobtainium"}, NOT_FOUND, "symbol"),
        ("molar_mass", {"formula": "Xx2"}, INVALID, "C6H12O6"),
        ("molar_mass", {"formula": " "}, INVALID, "no formula"),
        ("next_moon_phase", {"day": "2025-01-01", "phase": "blue"}, INVALID, "first_quarter"),
        ("next_moon_phase", {"day": "9999-12-31", "phase": "full"}, INVALID, "begin earlier"),
        ("public_holidays", {"country": "Japan", "year": 3000}, INVALID, "2100"),
        ("public_holidays", {"country": "Germany", "year": 1980}, NOT_FOUND, "1991 to 2100"),
        (
            "is_public_holiday",
            {"country": "Germany", "day": "25 December 1980"},
            NOT_FOUND,
            "1991 to 2100",
        ),
        ("public_holidays", {"country": "Atlantis", "year": 2025}, NOT_FOUND, "Atlantis"),
        ("dictionary", {"word": "running fast"}, NOT_FOUND, "base form"),
    ],
)
def test_failure_names_cause_and_fix(
    name: str, arguments: dict[str, Any], kind: FailureKind, words: str
) -> None:
    found, message = failure_of(name, arguments)
    assert found is kind
    assert words in message


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("SELEC 1", INVALID, "syntax error"),
        ("SELECT * FROM weather", INVALID, "tables are airlines, airports"),
        ("SELECT 1; SELECT 2", INVALID, "one SELECT"),
        ("DROP TABLE flights", INVALID, "read-only"),
        ("CREATE TEMP TABLE t AS SELECT 1", INVALID, "read-only"),
        ("COPY flights TO '/tmp/flights.csv'", INVALID, "one SELECT"),
        ("SET enable_external_access = true", INVALID, "one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", INVALID, "disabled"),
        ("SELECT * FROM read_text('/proc/self/environ')", INVALID, "disabled"),
        ("SELECT * FROM glob('/*')", INVALID, "disabled"),
        ("SELECT repeat('x', 20000)", LIMIT, "10000 characters"),
        # DuckDB's own limit does not count texts.
        ("SELECT repeat('x', 8000000) FROM range(101)", LIMIT, "memory"),
        (
            f"SELECT {', '.join('xxxxx')} FROM (SELECT repeat('x', 9999) AS x FROM range(99))",
            LIMIT,
            "select less",
        ),
        ("SELECT sum(a.distance + b.distance) FROM flights a, flights b", LIMIT, "5 s"),
    ],
)
def test_database_is_read_only_bounded_and_alone(sql: str, kind: FailureKind, words: str) -> None:
    found, message = failure_of("query_database", {"sql": sql})
    assert found is kind
    assert words in message


def test_rows_are_cut_at_a_hundred() -> None:
    answer = FUNCTIONS["query_database"]({"sql": "SELECT flight FROM flights"})
    assert isinstance(answer, dict)
    assert len(answer["rows"]) == 100
    assert answer["truncated"]

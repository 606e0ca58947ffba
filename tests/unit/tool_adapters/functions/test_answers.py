import subprocess
from typing import Any

import pytest

from podium_functions import sample_database
from podium_functions.table import FUNCTIONS

ANSWERS: list[tuple[str, dict[str, Any], Any]] = [
    ("calculator", {"expression": "2 + 3 * 4"}, 14),
    ("calculator", {"expression": "0.1 + 0.2"}, 0.3),
    ("calculator", {"expression": "2 ^ 10 ="}, 1024),
    ("calculator", {"expression": "7 \u00d7 6 \u00f7 2 \u2212 1"}, 20),
    ("calculator", {"expression": "factorial(20)"}, 2432902008176640000),
    ("calculator", {"expression": "2 ** 100 % 97"}, 16),
    (
        "convert_units",
        {"value": 26.2, "from_unit": "mile", "to_unit": "km"},
        {"value": 42.1648128, "unit": "kilometer"},
    ),
    (
        "convert_units",
        {"value": 98.6, "from_unit": "fahrenheit", "to_unit": "celsius"},
        {"value": 37.0, "unit": "degree_Celsius"},
    ),
    (
        "convert_units",
        {"value": 90, "from_unit": "km/h", "to_unit": "m/s"},
        {"value": 25.0, "unit": "meter / second"},
    ),
    (
        "days_between",
        {"start": "2024-01-31", "end": "2025-03-01"},
        {"days": 395, "years": 1, "months": 1, "remaining_days": 1},
    ),
    (
        "add_to_date",
        {"start": "2024-01-31", "months": 1},
        {"date": "2024-02-29", "weekday": "Thursday"},
    ),
    (
        "day_of_week",
        {"day": "1969-07-20"},
        {"weekday": "Sunday", "iso_week": 29, "day_of_year": 201},
    ),
    (
        "is_public_holiday",
        {"country": "Germany", "day": "2025-10-03"},
        {"is_public_holiday": True, "name": "German Unity Day"},
    ),
    (
        "is_public_holiday",
        {"country": "DE", "day": "2025-10-02"},
        {"is_public_holiday": False, "name": None},
    ),
    (
        "currency_facts",
        {"currency": "swiss franc"},
        {
            "code": "CHF",
            "name": "Swiss Franc",
            "symbol": "CHF",
            "decimal_places": 2,
            "countries": ["Liechtenstein", "Switzerland"],
        },
    ),
    (
        "airport_distance",
        {"from_code": "jfk", "to_code": "LHR"},
        {
            "from": "John F Kennedy International Airport",
            "to": "London Heathrow Airport",
            "distance_km": 5554.5,
        },
    ),
    (
        "next_moon_phase",
        {"day": "2025-01-01", "phase": "full"},
        {"phase": "full", "utc": "2025-01-13 22:26"},
    ),
    (
        "season_starts",
        {"year": 2025},
        {
            "march_equinox": "2025-03-20 09:01",
            "june_solstice": "2025-06-21 02:42",
            "september_equinox": "2025-09-22 18:19",
            "december_solstice": "2025-12-21 15:02",
        },
    ),
    (
        "dictionary",
        {"word": "Victory"},
        {
            "word": "victory",
            "definitions": ["a successful ending of a struggle or contest"],
            "synonyms": ["triumph"],
            "antonyms": ["defeat"],
        },
    ),
    (
        "query_database",
        {"sql": "SELECT carrier, count(*) AS n FROM flights GROUP BY 1 ORDER BY n DESC LIMIT 2"},
        {"columns": ["carrier", "n"], "rows": [["UA", 58665], ["B6", 54635]], "truncated": False},
    ),
    (
        "query_database",
        {"sql": "```sql\nSELECT count(*) AS n FROM airlines;\n```"},
        {"columns": ["n"], "rows": [[16]], "truncated": False},
    ),
]


@pytest.mark.parametrize(("name", "arguments", "answer"), ANSWERS)
def test_answer(name: str, arguments: dict[str, Any], answer: Any) -> None:
    assert FUNCTIONS[name](arguments) == answer


FACTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("days_between", {"start": "1 March", "end": "24 December 2025"}, {"days": 298}),
    ("days_between", {"start": "24 December", "end": "3 January 2026"}, {"days": 10}),
    ("days_between", {"start": "24 December 2025", "end": "January 3"}, {"days": 10}),
    ("molar_mass", {"formula": "caffeine"}, {"molar_mass_g_per_mol": 194.194}),
    ("molar_mass", {"formula": "Table salt"}, {"atoms": {"Na": 1, "Cl": 1}}),
    ("country_facts", {"country": "Japan"}, {"capital": "Tokyo", "currency": "JPY"}),
    ("country_facts", {"country": "UK"}, {"name": "United Kingdom", "neighbours": ["Ireland"]}),
    ("country_facts", {"country": "USA"}, {"neighbours": ["Canada", "Mexico"]}),
    ("molar_mass", {"formula": "H20"}, {"atoms": {"H": 2, "O": 1}}),
    ("convert_units", {"value": "500 ML", "to_unit": "L"}, {"value": 0.5}),
    ("convert_units", {"value": "2 megalitres", "to_unit": "ML"}, {"value": 2e9}),
    ("country_facts", {"country": "Kosovo"}, {"capital": "Pristina"}),
    (
        "country_facts",
        {"country": "CHE"},
        {"languages": ["German", "French", "Italian", "Romansh"]},
    ),
    ("city_facts", {"city": "Paris"}, {"country": "France", "timezone": "Europe/Paris"}),
    ("city_facts", {"city": "Paris", "country": "US"}, {"country": "United States"}),
    ("city_facts", {"city": "New York"}, {"name": "New York City"}),
    ("city_distance", {"from_city": "London", "to_city": "Paris"}, {"distance_km": 344.1}),
    ("airport_facts", {"code": "cdg"}, {"city": "Paris", "country": "France"}),
    ("element_facts", {"element": "Iron"}, {"symbol": "Fe", "atomic_number": 26}),
    ("element_facts", {"element": "79"}, {"name": "gold", "atomic_mass_u": 196.96657}),
    ("molar_mass", {"formula": "Ca(OH)2"}, {"atoms": {"Ca": 1, "O": 2, "H": 2}}),
    ("molar_mass", {"formula": "C6H12O6"}, {"molar_mass_g_per_mol": 180.156}),
]


@pytest.mark.parametrize(("name", "arguments", "facts"), FACTS)
def test_facts(name: str, arguments: dict[str, Any], facts: dict[str, Any]) -> None:
    answer = FUNCTIONS[name](arguments)
    assert isinstance(answer, dict)
    assert answer | facts == answer


def test_holidays_are_listed_in_english_and_in_order() -> None:
    answer = FUNCTIONS["public_holidays"]({"country": "Japan", "year": 2025})
    assert isinstance(answer, dict)
    assert answer["holidays"][0] == {"date": "2025-01-01", "name": "New Year's Day"}
    days = [each["date"] for each in answer["holidays"]]
    assert days == sorted(days)
    assert answer["count"] == len(days)


def test_a_builder_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_database, "BUILDING_S", 0.001)
    with pytest.raises(subprocess.TimeoutExpired):
        sample_database._built.__wrapped__()

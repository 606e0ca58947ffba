from typing import Any

import pycountry
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS

FOUND: list[tuple[str, str, str, list[str]]] = [
    (
        "country_facts",
        "country",
        "The Netherlands",
        ["Netherlands", "the netherlands", "Holland", "NL", "nld", "Kingdom of the Netherlands"],
    ),
    (
        "country_facts",
        "country",
        "United States",
        ["USA", "U.S.A.", "u.s.", "US", "America", "the United States of America", "in the US"],
    ),
    (
        "country_facts",
        "country",
        "United Kingdom",
        ["UK", "U.K.", "Great Britain", "GB", "Britain"],
    ),
    (
        "country_facts",
        "country",
        "South Korea",
        ["south korea", "Republic of Korea", "KR", "ROK", "S. Korea"],
    ),
    ("country_facts", "country", "South Africa", ["South Africa", "RSA", "ZAF"]),
    (
        "country_facts",
        "country",
        "Ivory Coast",
        ["C\u00f4te d\u2019Ivoire", "Cote d'Ivoire", "CIV"],
    ),
    ("country_facts", "country", "Turkey", ["T\u00fcrkiye", "turkiye", "Turkey?"]),
    ("country_facts", "country", "Czechia", ["Czech Republic", "the Czech Republic", "CZ"]),
    ("country_facts", "country", "Myanmar", ["Burma"]),
    (
        "country_facts",
        "country",
        "Sao Tome and Principe",
        ["ST", "S\u00e3o Tom\u00e9 & Pr\u00edncipe"],
    ),
    ("country_facts", "country", "Saint Lucia", ["St. Lucia", "St Lucia"]),
    ("country_facts", "country", "Bosnia and Herzegovina", ["Bosnia & Herzegovina", "Bosnia"]),
    (
        "city_facts",
        "city",
        "Paris",
        [
            "paris",
            "Paris, France",
            "Paris France",
            "Paris, Texas",
            "Paris, TX",
            "the city of Paris",
        ],
    ),
    ("city_facts", "city", "S\u00e3o Paulo", ["Sao Paulo", "s\u00e3o paulo", "Sao Paulo, Brazil"]),
    (
        "city_facts",
        "city",
        "Z\u00fcrich",
        ["Zurich", "Zurich, Switzerland", "Zurich in Switzerland"],
    ),
    ("city_facts", "city", "New York City", ["New York", "NYC", "New York, USA"]),
    ("city_facts", "city", "Saint Petersburg", ["St. Petersburg", "St Petersburg, Russia"]),
    ("city_facts", "city", "Atlanta", ["Atlanta, Georgia"]),
    ("city_facts", "city", "Kolkata", ["Calcutta", "Calcutta, India", "Kolkata"]),
    ("city_facts", "city", "Madinah", ["Medina"]),
    ("city_facts", "city", "Cambridge", ["Cambridge, England"]),
    ("city_facts", "city", "Perth", ["Perth, Scotland"]),
    (
        "airport_facts",
        "code",
        "Charles de Gaulle International Airport",
        ["CDG", "cdg", "CDG airport", "the airport CDG", "LFPG", "Charles de Gaulle"],
    ),
    (
        "airport_facts",
        "code",
        "London Heathrow Airport",
        [
            "Heathrow",
            "London Heathrow",
            "lhr",
            "London Heathrow (LHR)",
            "the airport of London, LHR",
        ],
    ),
    ("airport_facts", "code", "Oslo Gardermoen Airport", ["Oslo", "Oslo, Norway", "Oslo airport"]),
    ("airport_facts", "code", "Zurich Airport", ["Z\u00fcrich", "zurich"]),
    (
        "currency_facts",
        "currency",
        "Swiss Franc",
        ["CHF", "chf", "swiss francs", "Switzerland", "the currency of Switzerland"],
    ),
    ("currency_facts", "currency", "Euro", ["euro", "euros", "\u20ac", "EUR"]),
    (
        "currency_facts",
        "currency",
        "British Pound",
        ["pounds sterling", "\u00a3", "the UK's currency"],
    ),
    ("currency_facts", "currency", "Japanese Yen", ["yen", "Japan", "JPY"]),
    ("currency_facts", "currency", "US Dollar", ["US dollars", "$", "USD", "US$"]),
    (
        "element_facts",
        "element",
        "gold",
        [
            "Au",
            "AU",
            "Gold",
            "79",
            "element 79",
            "atomic number 79",
            "Au (gold)",
            "the element gold?",
        ],
    ),
    ("element_facts", "element", "aluminum", ["aluminium", "Al", "13"]),
    ("element_facts", "element", "nobelium", ["No", "no"]),
    ("dictionary", "word", "victory", ["Victory", "victories", '"victory"', "the word victory"]),
    ("dictionary", "word", "wolf", ["wolf", "wolves"]),
]


@pytest.mark.parametrize(
    ("tool", "argument", "name", "written"),
    [(tool, argument, name, each) for tool, argument, name, forms in FOUND for each in forms],
)
def test_written_name_is_found(tool: str, argument: str, name: str, written: str) -> None:
    answer = FUNCTIONS[tool]({argument: written})
    assert isinstance(answer, dict)
    assert answer["word" if tool == "dictionary" else "name"] == name


def test_every_country_is_found_by_every_name_in_iso_3166() -> None:
    for country in pycountry.countries:
        fields = ("alpha_2", "alpha_3", "numeric", "name", "common_name", "official_name")
        for name in (getattr(country, field) for field in fields if hasattr(country, field)):
            # Two countries are called so.
            if name != "Congo":
                answer = FUNCTIONS["country_facts"]({"country": name})
                assert isinstance(answer, dict)
                assert answer["alpha_2"] == country.alpha_2


def test_place_behind_a_city_chooses_among_namesakes() -> None:
    texas = FUNCTIONS["city_facts"]({"city": "Paris, Texas"})
    assert isinstance(texas, dict)
    assert texas["country"] == "United States"
    assert texas == FUNCTIONS["city_facts"]({"city": "Paris", "country": "the US"})


@pytest.mark.parametrize(
    ("formula", "mass"),
    [
        ("H2O", 18.015),
        ("H\u2082O", 18.015),
        ("h2o", 18.015),
        ("water (H2O)", 18.015),
        ("H2O (l)", 18.015),
        ("nacl", 58.4398),
        ("caffeine, C8H10N4O2", 194.194),
        ("CuSO4\u00b75H2O", 249.677),
        ("CuSO4.5H2O", 249.677),
        ("CuSO4 5H2O", 249.677),
        ("K4[Fe(CN)6]", 368.3462),
        ("iron", 55.845),
        ("O2?", 31.998),
        ("CO", 28.01),
        ("carbon monoxide", 28.01),
        ("NO", 30.006),
        ("HF", 20.0064),
        ("Co", 58.9332),
        ("AU", 196.9666),
        ("fe", 55.845),
    ],
)
def test_written_formula_is_weighed(formula: str, mass: float) -> None:
    answer = FUNCTIONS["molar_mass"]({"formula": formula})
    assert isinstance(answer, dict)
    assert answer["molar_mass_g_per_mol"] == mass


REJECTED = [
    ("country_facts", "country", "Korea", "South Korea or North Korea"),
    ("country_facts", "country", "England", "United Kingdom"),
    ("country_facts", "country", "Germny", "did you mean Germany"),
    ("city_facts", "city", "Berln", "did you mean Berlin"),
    ("city_facts", "city", " ", "check the spelling"),
    ("city_facts", "city", "London, Ontario", '"London, Canada"'),
    ("airport_facts", "code", "London", "LGW (London Gatwick Airport)"),
    ("airport_facts", "code", "airport", "for example LHR"),
    ("airport_facts", "code", "Vancouver", "YVR (Vancouver International Airport)"),
    ("airport_facts", "code", "Toronto", "YYZ (Toronto Pearson International Airport)"),
    ("airport_facts", "code", "LHR to JFK", "for example LHR"),
    ("airport_facts", "code", "THE LONDONN AIRPORT", "for example LHR"),
    ("currency_facts", "currency", "dollar", "Australian Dollar (AUD)"),
    ("currency_facts", "currency", "krone", "Danish Krone (DKK), Norwegian Krone (NOK); write"),
    ("currency_facts", "currency", "kr", "Danish Krone (DKK)"),
    ("currency_facts", "currency", "Rs.", "Indian Rupee (INR)"),
    ("currency_facts", "currency", "RM", 'RM"; write'),
    ("country_facts", "country", "ROC", 'ROC"; write'),
    ("element_facts", "element", "iron and gold", "write one element"),
    ("element_facts", "element", "tungstn", "did you mean tungsten"),
    ("molar_mass", "formula", "co2", "CO2 or Co2"),
    ("molar_mass", "formula", "co", "CO or Co"),
    ("molar_mass", "formula", "no", "NO or No"),
    ("molar_mass", "formula", "H0", "C6H12O6"),
    ("molar_mass", "formula", "()", "C6H12O6"),
    ("molar_mass", "formula", "oxygen", "O or O2"),
    ("molar_mass", "formula", "lemonade", "C6H12O6"),
    ("dictionary", "word", "serendipty", "did you mean serendipity"),
]


@pytest.mark.parametrize(("tool", "argument", "written", "fix"), REJECTED)
def test_unclear_name_is_rejected_with_what_to_write(
    tool: str, argument: str, written: str, fix: str
) -> None:
    with pytest.raises(FunctionFailed) as raised:
        FUNCTIONS[tool]({argument: written})
    assert fix in raised.value.failure.message


def test_answer_stands_first() -> None:
    firsts = {
        "airport_distance": ({"from_code": "JFK", "to_code": "LHR"}, "distance_km"),
        "city_distance": ({"from_city": "London", "to_city": "Paris"}, "distance_km"),
        "country_facts": ({"country": "Japan"}, "capital"),
        "dictionary": ({"word": "victory"}, "definitions"),
        "next_moon_phase": ({"day": "1 January 2025", "phase": "full"}, "utc"),
    }
    for tool, (arguments, field) in firsts.items():
        answer = FUNCTIONS[tool](arguments)
        assert isinstance(answer, dict)
        assert next(iter(answer)) == field


NAMED = [
    *(("country_facts", "country"), ("city_facts", "city"), ("airport_facts", "code")),
    *(("currency_facts", "currency"), ("element_facts", "element"), ("molar_mass", "formula")),
    ("dictionary", "word"),
]


@given(
    st.sampled_from(NAMED), st.one_of(st.text(max_size=40), st.text("HOCaNl2()[]. ,'", max_size=9))
)
def test_no_text_raises_anything_but_a_failure(named: tuple[str, str], text: str) -> None:
    tool, argument = named
    arguments: dict[str, Any] = {argument: text}
    try:
        FUNCTIONS[tool](arguments)
    except FunctionFailed as failed:
        assert failed.failure.message

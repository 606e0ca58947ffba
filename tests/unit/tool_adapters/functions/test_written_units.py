from typing import Any

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS
from podium_functions.written.numerals import plain_numbers
from podium_kit.failures import FailureKind

convert_units = FUNCTIONS["convert_units"]


def converted(value: float | str, to_unit: str, **more: str) -> Any:
    answer = convert_units({"value": value, "to_unit": to_unit, **more})
    assert isinstance(answer, dict)
    return answer["value"]


WRITTEN = [
    ("-13 F", "C", -25),
    ("\u221213 \u00b0F", "\u00baC", -25),
    ("minus 13 degrees Fahrenheit", "degrees Celsius", -25),
    ("20 degrees C", "F", 68),
    ("300 K", "C", 26.85),
    ("0 Kelvin", "Fahrenheit", -459.67),
    ("1 C", "A*h", 0.000277777777778),
    ("3 F", "microfarads", 3000000),
    ("5 feet 11 inches", "cm", 180.34),
    ("5'11\"", "cm", 180.34),
    ("5\u2032 11\u2033", "m", 1.8034),
    ("3 stone 4 pounds", "kg", 20.86524902),
    ("2 hours and 30 minutes", "seconds", 9000),
    ("2 h, 30 min", "s", 9000),
    ("12.5 km/h", "mph", 7.76713990297),
    ("12.5 Km/H", "mph", 7.76713990297),
    ("60 miles per hour", "kilometres per hour", 96.56064),
    ("60 miles an hour", "km/h", 96.56064),
    ("9.8 metres per second squared", "ft/s^2", 32.1522309711),
    ("1,200 lb", "kg", 544.310844),
    ("70 kilos", "pounds", 154.323583529),
    ("10 KM", "Miles", 6.21371192237),
    ("5 square miles", "square kilometers", 12.9499405517),
    ("5 sq. ft.", "m2", 0.4645152),
    ("1,500 m\u00b2", "acres", 0.37065658957),
    ("10 cubic metres", "US gallons", 2641.72052358),
    ("3 imperial gallons", "US gallons", 3.60284977651),
    ("3 U.K. gallons", "liters", 13.63827),
    ("2 metric tons", "pounds", 4409.2452437),
    ("8 oz", "grams", 226.796185),
    ("8 oz", "ml", 236.5882365),
    ("8 fl oz", "ml", 236.5882365),
    ("12 foot-pounds", "joules", 16.26981538),
    ("3 kilowatt hours", "MJ", 10.8),
    ("3 light-years", "light years", 3),
    ("32 pounds per square inch", "bar", 2.20632233381),
    ("32 psi", "kpa", 220.632233381),
    ("500 mb", "GB", 0.5),
    ("60 rpm", "Hz", 1),
    ("1 kHz", "rpm", 60000),
    ("1 Hz", "degrees per second", 360),
    ("60 rpm", "rad/s", 6.28318530718),
    ("100 mbps", "MB/s", 12.5),
    ("100 MBPS", "Mbit/s", 100),
    ("100 MBps", "MB/s", 100),
    ("100 mbit", "MB", 12.5),
    ("30 mpa", "MPa", 30),
    ("2 mwh", "kWh", 2000),
    ("5 KW", "W", 5000),
    ("5 NM", "km", 9.26),
    ("1 AU", "km", 149597870.7),
    ("20 centigrade", "F", 68),
    ("180\u00b0", "turns", 0.5),
    ("1013.25 mb", "atm", 1),
    ("100 sqm", "sqft", 1076.39104167),
    ("5 British thermal units", "BTU", 5),
    ("3 m ** 2", "meter ^ 2", 3),
    ("4.18 J/(g*K)", "kJ/(kg*C)", 4.18),
    ("2 KWH", "MJ", 7.2),
    ("1/2 mile", "m", 804.672),
    ("2 1/2 cups", "ml", 591.47059125),
    ("3.5 million km", "miles", 2174799.17283),
    ("5 km", "in miles?", 3.10685596119),
    ("26.2 miles in kilometres", "km", 42.1648128),
    ("5 in to cm", "cm", 12.7),
    ("a mile", "km", 1.609344),
    ("half an hour", "minutes", 30),
    ("one second", "ms", 1000),
    ("twenty-five inches", "cm", 63.5),
]
REJECTED = [
    ({"value": "5 furlogs", "to_unit": "m"}, '{"value": "5 furlong", "to_unit": "m"}'),
    ({"value": 5, "to_unit": "km"}, '"5 miles"'),
    ({"value": "5 feet 11", "to_unit": "cm"}, "11 has no unit"),
    ({"value": "5 km", "to_unit": "kg"}, "same kind"),
    ({"value": "5 miles", "from_unit": "km", "to_unit": "m"}, "leave from_unit out"),
    ({"value": "3,5 km", "to_unit": "m"}, "write 3.5"),
    ({"value": "1.234,5 km", "to_unit": "m"}, "write 1234.5, not 1.234,5"),
    ({"value": "kilometre", "to_unit": "mile"}, '"12.5 km"'),
    ({"value": "5 9**9**9", "to_unit": "m"}, "no unit"),
    ({"value": "5 m", "to_unit": "9**9**9"}, "unknown unit"),
    ({"value": "5 C 3 C", "to_unit": "F"}, "temperatures"),
    ({"value": "1e999 m", "to_unit": "km"}, "too large"),
    ({"value": "50 dollars", "to_unit": "euros"}, "unknown unit"),
]


@pytest.mark.parametrize(("value", "to_unit", "result"), WRITTEN)
def test_written_amount_is_converted(value: str, to_unit: str, result: float) -> None:
    assert converted(value, to_unit) == result


@pytest.mark.parametrize("value", [20, "20", "20 C", "20 degrees Celsius"])
def test_unit_may_stand_beside_the_amount(value: float | str) -> None:
    assert converted(value, "F", from_unit="C") == 68


@pytest.mark.parametrize(("arguments", "fix"), REJECTED)
def test_rejected_amount_comes_with_its_fix(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(FunctionFailed) as raised:
        convert_units(arguments)
    assert raised.value.failure.kind is FailureKind.INVALID_ARGUMENTS
    assert fix in raised.value.failure.message


@given(
    st.integers(0, 10**9), st.sampled_from(["{:,} m", "{} m", "{}m", "{:_} metres", "+{} meters"])
)
def test_every_way_to_write_a_length_is_the_same(metres: int, written: str) -> None:
    assert converted(written.format(metres), "metre") == metres


def test_every_name_of_pint_means_what_it_means_to_pint() -> None:
    registry: Any = pint.UnitRegistry()
    names = [name for name in registry if name.isidentifier()]
    assert len(names) > 900
    for name in names:
        try:
            there = registry.Quantity(2.0, registry.parse_units(name)).to_base_units()
        except pint.PintError:
            continue
        unit = f"{there.units}".replace("1 / ", "dimensionless / ")
        if "." in unit:
            continue
        assert converted(2, unit, from_unit=name) == pytest.approx(there.magnitude), name


PIECES = st.sampled_from([*"/*^'\".,-", "5", "1,200", "feet", "F", "sq", "per", "and", "degrees"])
TEXT = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map(" ".join))


@given(TEXT, TEXT, st.one_of(TEXT, st.floats()))
def test_no_text_raises_anything_but_a_failure(
    to_unit: str, from_unit: str, value: float | str
) -> None:
    try:
        convert_units({"value": value, "from_unit": from_unit, "to_unit": to_unit})
    except FunctionFailed as failed:
        assert failed.failure.message


@pytest.mark.parametrize("number", ["1e200000000", "1e999980", "1e-999980"])
def test_a_number_of_a_gigabyte_is_not_written_out(number: str) -> None:
    assert plain_numbers(f"{number} million") == f"{number} million"

"""The one table of bundled functions, by the name FunctionConnection uses."""

from collections.abc import Callable

from tool_adapters.functions.airports import airport_distance, airport_facts
from tool_adapters.functions.arithmetic import calculator
from tool_adapters.functions.astronomy import next_moon_phase, season_starts
from tool_adapters.functions.chemistry import element_facts, molar_mass
from tool_adapters.functions.cities import city_facts
from tool_adapters.functions.countries import country_facts
from tool_adapters.functions.currencies import currency_facts
from tool_adapters.functions.dates import add_to_date, day_of_week, days_between
from tool_adapters.functions.dictionary import dictionary
from tool_adapters.functions.distances import city_distance
from tool_adapters.functions.function import Function, JsonValue
from tool_adapters.functions.public_holidays import is_public_holiday, public_holidays
from tool_adapters.functions.sql import query_database
from tool_adapters.functions.units import convert_units

_CALLS: tuple[Callable[..., JsonValue], ...] = (
    add_to_date,
    airport_distance,
    airport_facts,
    calculator,
    city_distance,
    city_facts,
    convert_units,
    country_facts,
    currency_facts,
    day_of_week,
    days_between,
    dictionary,
    element_facts,
    is_public_holiday,
    molar_mass,
    next_moon_phase,
    public_holidays,
    query_database,
    season_starts,
)
FUNCTIONS = {function.name: function for function in map(Function, _CALLS)}

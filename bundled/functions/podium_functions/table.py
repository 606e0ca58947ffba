"""The one table of bundled functions, by the name FunctionConnection uses."""

from podium_functions.function import Function

# Of each module; one is imported by the first call of a function in it.
_NAMES = {
    "airports": ("airport_distance", "airport_facts"),
    "arithmetic": ("calculator",),
    "astronomy": ("next_moon_phase", "season_starts"),
    "chemistry": ("element_facts", "molar_mass"),
    "cities": ("city_facts",),
    "countries": ("country_facts",),
    "currencies": ("currency_facts",),
    "dates": ("add_to_date", "day_of_week", "days_between"),
    "dictionary": ("dictionary",),
    "distances": ("city_distance",),
    "public_holidays": ("is_public_holiday", "public_holidays"),
    "sql": ("query_database",),
    "units": ("convert_units",),
}
FUNCTIONS = {
    name: Function(name, f"{__package__}.{module}")
    for name, module in sorted((name, module) for module, names in _NAMES.items() for name in names)
}

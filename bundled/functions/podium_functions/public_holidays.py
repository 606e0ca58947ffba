from typing import Annotated, Any

import holidays
from pydantic import Field

from podium_functions.countries import CountryName, country_code, country_name
from podium_functions.errors import not_found
from podium_functions.written.dates import Day

Year = Annotated[int, Field(description="Year, for example 2025.", ge=1900, le=2100)]


def public_holidays(country: CountryName, year: Year) -> dict[str, Any]:
    found = sorted(_holidays_of(country, year).items())
    listed = [{"date": day.isoformat(), "name": name} for day, name in found]
    return {"count": len(listed), "holidays": listed}


def is_public_holiday(country: CountryName, day: Day) -> dict[str, Any]:
    name = _holidays_of(country, day.year).get(day)
    return {"is_public_holiday": name is not None, "name": name}


def _holidays_of(country: str, year: int) -> holidays.HolidayBase:
    """Raises FunctionFailed for years that the package does not know, where it finds no holiday."""
    code = country_code(country)
    languages = holidays.list_localized_countries().get(code, [])
    english = next((each for each in ("en_US", "en_GB", "en") if each in languages), None)
    found = holidays.country_holidays(code, years=year, language=english)
    if not found.start_year <= year <= found.end_year:
        known = f"{found.start_year} to {found.end_year}"
        raise not_found(
            f"the public holidays of {country_name(code)} are known of the years {known}, "
            f"not of {year}; ask for another year"
        )
    return found

"""Phases of the moon and starts of the seasons, by ephem."""

from typing import Annotated, Any, Literal

import ephem
from pydantic import Field

from podium_functions.errors import invalid
from podium_functions.public_holidays import Year
from podium_functions.written.dates import Beginning

MoonPhase = Literal["new", "first_quarter", "full", "last_quarter"]

NEXT_PHASE = {
    "new": ephem.next_new_moon,
    "first_quarter": ephem.next_first_quarter_moon,
    "full": ephem.next_full_moon,
    "last_quarter": ephem.next_last_quarter_moon,
}


def next_moon_phase(
    day: Beginning, phase: Annotated[MoonPhase, Field(description="Which phase to look for.")]
) -> dict[str, Any]:
    try:
        utc = _minute(NEXT_PHASE[phase](ephem.Date(day.isoformat())))
    except ValueError as error:
        raise invalid(f"the next {phase} moon is after the year 9999; begin earlier") from error
    return {"utc": utc, "phase": phase}


def season_starts(year: Year) -> dict[str, Any]:
    start = ephem.Date(str(year))
    return {
        "march_equinox": _minute(ephem.next_vernal_equinox(start)),
        "june_solstice": _minute(ephem.next_summer_solstice(start)),
        "september_equinox": _minute(ephem.next_autumnal_equinox(start)),
        "december_solstice": _minute(ephem.next_winter_solstice(start)),
    }


def _minute(moment: ephem.Date) -> str:
    return f"{moment.datetime():%Y-%m-%d %H:%M}"

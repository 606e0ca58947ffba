from datetime import date
from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.families.dates import a_day, written
from podium_training.tasks.splits import number
from podium_training.tasks.task import Call, Split

EVENTS = {
    "the March equinox": "march_equinox",
    "the spring equinox in March": "march_equinox",
    "the June solstice": "june_solstice",
    "the summer solstice in June": "june_solstice",
    "the September equinox": "september_equinox",
    "the December solstice": "december_solstice",
    "the winter solstice in December": "december_solstice",
}
NORTHERN_SEASONS = {
    "spring": "march_equinox",
    "summer": "june_solstice",
    "autumn": "september_equinox",
    "winter": "december_solstice",
}
PHASES = {
    "full moon": "full",
    "new moon": "new",
    "first quarter moon": "first_quarter",
    "last quarter moon": "last_quarter",
}


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice(("season", "season_start", "moon_after", "moon_in_month"))
    if kind == "season":
        return _season(kind, "event", EVENTS, random, split)
    if kind == "season_start":
        return _season(kind, "season", NORTHERN_SEASONS, random, split)
    if kind == "moon_in_month":
        month, phase, call = a_moon(random, split)
        return _moon(kind, {"phase": phase, "month": month}, call)
    phase = random.choice(list(PHASES))
    day = a_day(random, split)
    text = written(random, day)
    call = Call("next_moon_phase", {"day": text, "phase": PHASES[phase]})
    if solve(call)["utc"].startswith(day.isoformat()):
        # The phase is on that very day, so "after" would mean the next but one.
        return draw(random, split)
    return _moon(kind, {"phase": phase, "day": text}, call)


def _season(kind: str, slot: str, names: dict[str, str], random: Random, split: Split) -> Draft:
    name, year = random.choice(list(names)), number(random, split, 1901, 2099)
    call = Call("season_starts", {"year": year})
    expected = solve(call)[names[name]].split()[0]
    return Draft(kind, {slot: name, "year": year}, "contains", {"expected": expected}, (call,))


def _moon(kind: str, entities: dict[str, str], call: Call) -> Draft:
    expected = solve(call)["utc"].split()[0]
    return Draft(kind, entities, "contains", {"expected": expected}, (call,))


def a_moon(random: Random, split: Split) -> tuple[str, str, Call]:
    while True:
        first = date(number(random, split, 1901, 2099), random.randint(1, 12), 1)
        month, phase = f"{first:%B %Y}", random.choice(list(PHASES))
        call = Call("next_moon_phase", {"day": f"1 {month}", "phase": PHASES[phase]})
        # A February may pass without one.
        if solve(call)["utc"].startswith(f"{first:%Y-%m}"):
            return month, phase, call

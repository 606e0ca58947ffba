"""Days of the calendar."""

from datetime import date, timedelta
from random import Random

from podium_training.tasks.draft import Draft, Phrasings, solve
from podium_training.tasks.splits import drawn, number
from podium_training.tasks.task import Call, Split

FIRST, DAYS = date(1950, 1, 1), 36_500
BETWEEN = Phrasings(
    (
        "How many days lie between {start} and {end}?",
        "Count the days from {start} to {end}.",
        "What is the number of days from {start} to {end}?",
        "{start} to {end}: how many days is that?",
        "If today is {start}, in how many days is it {end}?",
        "A bridge was closed on {start} and opened again on {end}. After how many days?",
        "She was hired on {start} and left on {end}. How many days lie in between?",
        "How long, in days, is it from {start} to {end}?",
        "A fence stood from {start} to {end}. How many days did it stand?",
        "We arrived on {start} and went home on {end}. How many days was our stay?",
        "How many days after {start} comes {end}?",
        "How many days passed between {start} and {end}?",
        "From {start} until {end}: give the number of days.",
        "Calculate the difference in days of {start} and {end}.",
        "A loan ran from {start} to {end}. For how many days did it run?",
        "The shop opened on {start} and shut for good on {end}. How many days did it last?",
        "A child was born on {start}. How many days old was it on {end}?",
        "How many nights are there between {start} and {end}?",
    ),
    (
        "A loan runs from {start} until {end}. For how many days is that?",
        "By how many days is {end} later than {start}?",
        "A letter of {start} was answered on {end}. How many days did the answer take?",
    ),
)
WEEKDAY = Phrasings(
    (
        "On which day of the week falls {start}?",
        "Which weekday is {start}?",
        "Is {start} a Monday, a Tuesday or which other day?",
        "Tell me the day of the week of {start}.",
        "A meeting is set for {start}. What day of the week is that?",
        "The ticket says {start}. On which weekday is the concert?",
        "What weekday was or will be {start}?",
        "{start}: which day of the week is it?",
        "Name the weekday of {start}.",
        "My birthday was {start}. What day of the week was it?",
        "The lease begins on {start}. Which weekday is that?",
        "Find out whether {start} falls on a Sunday, or on which day else.",
        "Give the day of the week for the date {start}.",
    ),
    (
        "Somebody was born on {start}. Name the weekday of the birth.",
        "What day does a calendar show for {start}: Monday, or which?",
        "A shop opened its doors on {start}. Which day of the week was it?",
    ),
)
LATER = Phrasings(
    (
        "Which date is {days} days after {start}? Answer as YYYY-MM-DD.",
        "Add {days} days to {start}. Answer as YYYY-MM-DD.",
        "Go {days} days forward from {start}. Which date is it? Answer as YYYY-MM-DD.",
        "A bill of {start} is due in {days} days. On which date? Answer as YYYY-MM-DD.",
        "A project starts on {start} and takes {days} days. When is it done? As YYYY-MM-DD.",
        "It is {start}. What is the date in {days} days? Answer as YYYY-MM-DD.",
        "What date comes {days} days after {start}? Answer as YYYY-MM-DD.",
        "Starting on {start}, count {days} days on. Where do you end? Answer as YYYY-MM-DD.",
        "A ticket of {start} is valid for {days} days. Until which date? As YYYY-MM-DD.",
        "{start} plus {days} days: which date? Answer as YYYY-MM-DD.",
        "The cheese of {start} ripens for {days} days. On which date is it ripe? As YYYY-MM-DD.",
        "Calculate the date {days} days later than {start}. Answer as YYYY-MM-DD.",
        "A ship left on {start} and was at sea for {days} days. When did it land? As YYYY-MM-DD.",
    ),
    (
        "A permit of {days} days begins on {start}. When does it lapse? Answer as YYYY-MM-DD.",
        "Since {start}, {days} days have gone by. What is the date? Answer as YYYY-MM-DD.",
        "A ship sails on {start} and lands {days} days later. When? Answer as YYYY-MM-DD.",
    ),
)


MONTHS_LATER = Phrasings(
    (
        "Which date is {months} months and {days} days after {start}? Answer as YYYY-MM-DD.",
        "Add {months} months and {days} days to {start}. Answer as YYYY-MM-DD.",
        "{start}, and {months} months and {days} days more: which date? Answer as YYYY-MM-DD.",
        "A visa of {start} is good for {months} months and {days} days. Until when? YYYY-MM-DD.",
        "What date comes {months} months and {days} days after {start}? Answer as YYYY-MM-DD.",
        "{start} plus {months} months plus {days} days: which date? Answer as YYYY-MM-DD.",
        "A lease of {start} runs {months} months and {days} days. When does it end? As YYYY-MM-DD.",
        "Calculate the date {months} months and {days} days later than {start}. As YYYY-MM-DD.",
        "A house was begun on {start} and took {months} months and {days} days. When was it done?"
        " As YYYY-MM-DD.",
        "Count {months} months and {days} days on from {start}. Which date is it? As YYYY-MM-DD.",
    ),
    (
        "A trip of {months} months and {days} days begins on {start}. When is it over? YYYY-MM-DD.",
        "From {start} count {months} months and {days} days. Where do you end? As YYYY-MM-DD.",
    ),
)


def draw(random: Random, split: Split) -> Draft:
    """A span, a weekday or a later date."""
    start = a_day(random, split)
    return random.choice((_between, _weekday, _later, _months_later))(random, split, start)


def _between(random: Random, split: Split, start: date) -> Draft:
    start, end = sorted((start, a_day(random, split)))
    call = Call("days_between", {"start": str(start), "end": str(end)})
    parameters = {"expected": solve(call)["days"]}
    entities = {"start": written(random, start), "end": written(random, end)}
    return Draft(BETWEEN, entities, "numeric", parameters, (call,))


def _weekday(random: Random, split: Split, start: date) -> Draft:
    call = Call("day_of_week", {"day": str(start)})
    parameters = {"expected": solve(call)["weekday"]}
    return Draft(WEEKDAY, {"start": written(random, start)}, "contains", parameters, (call,))


def _later(random: Random, split: Split, start: date) -> Draft:
    days = number(random, split, 30, 3000)
    call = Call("add_to_date", {"start": str(start), "days": days})
    parameters = {"expected": solve(call)["date"]}
    entities = {"start": written(random, start), "days": days}
    return Draft(LATER, entities, "contains", parameters, (call,))


def _months_later(random: Random, split: Split, start: date) -> Draft:
    more = {"months": number(random, split, 2, 60), "days": number(random, split, 2, 28)}
    call = Call("add_to_date", {"start": str(start), **more})
    parameters = {"expected": solve(call)["date"]}
    entities = {"start": written(random, start), **more}
    return Draft(MONTHS_LATER, entities, "contains", parameters, (call,))


def a_day(random: Random, split: Split) -> date:
    return drawn(lambda: FIRST + timedelta(days=random.randrange(DAYS)), split)


def written(random: Random, day: date) -> str:
    """A day as people write it, or as tools want it."""
    return random.choice((f"{day.day} {day:%B} {day.year}", str(day)))

"""Sums a calculator does exactly."""

from random import Random

from podium_training.tasks.draft import Draft, Phrasings, solve
from podium_training.tasks.splits import number
from podium_training.tasks.task import Call, Split

KINDS = {
    "{a} * {b}": Phrasings(
        (
            "What is {a} multiplied by {b}?",
            "Multiply {a} by {b}.",
            "Compute {a} times {b}.",
            "{a} * {b} = ?",
            "A theatre sells {a} tickets at {b} euros each. How much does it take in?",
            "Each of {a} pupils reads {b} pages. How many pages do they read together?",
            "A hall is {a} metres long and {b} metres wide. How many square metres has its floor?",
            "One brick weighs {b} grams. How many grams do {a} of them weigh?",
            "Calculate {a} x {b}.",
            "A worker is paid {b} euros a day for {a} days. How many euros is that?",
            "{b} shelves carry {a} jars each. How many jars is that altogether?",
            "By hand this takes long: {a} times {b}. What is it?",
            "A printer does {a} sheets an hour. How many sheets does it do in {b} hours?",
        ),
        (
            "Find the product of {a} and {b}.",
            "{a} boxes hold {b} screws each. How many in all?",
            "A book of {a} pages is printed {b} times. How many pages are that?",
            "If one costs {b} euros, what do {a} of them cost?",
        ),
    ),
    "{a} * {b} + {c}": Phrasings(
        (
            "Multiply {a} by {b}, then add {c}.",
            "What is {a} times {b} plus {c}?",
            "Work out {a} * {b} + {c}.",
            "Take {a} times {b} and increase the result by {c}.",
            "{a} people are paid {b} euros each, and their office costs {c} euros. What is spent?",
            "A shop has {c} pens and buys {a} packs of {b} pens. How many pens has it then?",
            "Calculate {a} x {b} + {c}.",
            "First multiply {a} and {b}; then add {c}. What is the result?",
            "A driver has {c} km on the clock and drives {b} km on each of {a} days. What does it"
            " show?",
            "The rent is {b} euros for {a} months, and the deposit {c} euros. What is paid in"
            " total?",
            "{a} crates of {b} apples and {c} loose apples: how many apples?",
        ),
        (
            "Add {c} to the product of {a} and {b}. What do you get?",
            "A park has {c} trees, and {a} helpers plant {b} more each. How many has it now?",
            "How much are {c} and {a} times {b} together?",
        ),
    ),
    "{a} ** 2 - {b}": Phrasings(
        (
            "What is the square of {a} minus {b}?",
            "Square {a} and subtract {b}.",
            "Raise {a} to the second power, then take off {b}.",
            "Evaluate {a}^2 - {b}.",
            "A square yard of {a} by {a} tiles lost {b} tiles. How many tiles are left?",
            "A stadium has {a} rows of {a} seats, and {b} seats are broken. How many can be used?",
            "Calculate {a} squared minus {b}.",
            "Multiply {a} by itself and subtract {b} from that.",
            "{a} to the power of 2, less {b}: what is it?",
            "A field is {a} by {a} metres, and a pond takes {b} square metres. How much land is"
            " left?",
        ),
        (
            "From {a} times itself take away {b}. What remains?",
            "By how much is {a} squared larger than {b}?",
            "{a} farmers own {a} sheep each and sell {b} of them in all. How many do they keep?",
        ),
    ),
    "comb({many}, {few})": Phrasings(
        (
            "In how many ways can {few} things be taken out of {many}?",
            "How many choices of {few} are there among {many}?",
            "What is the number of combinations of {few} out of {many}?",
            "A coach picks {few} of {many} players. How many teams are possible?",
            "Calculate the binomial coefficient of {many} over {few}.",
            "A menu lists {many} dishes. In how many ways can one order {few} different ones?",
            "From {many} books {few} go along. How many selections are there?",
            "How many subsets of size {few} does a set of {many} elements have?",
            "A lottery draws {few} of {many} balls, in no order. How many results can it have?",
        ),
        (
            "How many different hands of {few} cards does a pile of {many} cards hold?",
            "Among {many} members, how many committees of {few} can be formed?",
        ),
    ),
    "round({a} * {growth} ** {years}, 2)": Phrasings(
        (
            "{a} euros earn {percent} percent a year, compounded. What are they after {years}"
            " years, rounded to cents?",
            "What do {a} euros grow to in {years} years at {percent} percent compound interest a"
            " year? Round to cents.",
            "At {percent} percent interest a year, compounded yearly, how many euros do {a} euros"
            " become in {years} years? Round to cents.",
            "Calculate compound interest: {a} euros, {percent} percent a year, {years} years. What"
            " is the sum, rounded to cents?",
            "A fund of {a} euros grows by {percent} percent every year. How many euros are in it"
            " after {years} years? Round to cents.",
            "A loan of {a} euros grows at {percent} percent a year, unpaid. How much is owed after"
            " {years} years, rounded to cents?",
        ),
        (
            "I put {a} euros away at {percent} percent yearly compound interest. How much is it in"
            " {years} years, to the cent?",
            "A deposit of {a} euros gains {percent} percent each year. What is it worth {years}"
            " years on? Round to cents.",
        ),
    ),
    "{a} ** {years} % {b}": Phrasings(
        (
            "What is the remainder of {a} to the power of {years} divided by {b}?",
            "Raise {a} to the power of {years} and divide by {b}: what remains?",
            "Compute {a} to the {years}th power modulo {b}.",
            "Calculate {a}^{years} mod {b}.",
            "Let {a} be multiplied by itself to exponent {years}. Which remainder leaves division"
            " by {b}?",
            "What is ({a} ** {years}) % {b}?",
            "Find {a}^{years} modulo {b}.",
        ),
        (
            "Divide the power of {a} with exponent {years} by {b}. What is left over?",
            "How much of {a} to the power of {years} is left when {b} is taken off as often as"
            " possible?",
        ),
    ),
    "{a} % {b}": Phrasings(
        (
            "What is the remainder of {a} divided by {b}?",
            "Divide {a} by {b}: what remains?",
            "What is {a} modulo {b}?",
            "{a} children make teams of {b}. How many children have no team?",
            "Crates hold {b} bottles. How many of {a} bottles do not fill a crate?",
            "Take {b} away from {a} as often as you can. What is left?",
            "Calculate {a} % {b}.",
            "{a} soldiers march in rows of {b}. How many march in the last, shorter row?",
            "Dividing {a} by {b} leaves which remainder?",
            "A baker fills bags of {b} rolls out of {a} rolls. How many rolls stay over?",
            "Which number remains when {a} is divided by {b}?",
        ),
        (
            "{a} eggs are packed in trays of {b}. How many are left over?",
            "Compute {a} mod {b}.",
            "A rope of {a} feet is cut into pieces of {b} feet. How long is the rest?",
        ),
    ),
}


def draw(random: Random, split: Split) -> Draft:
    """An expression and its exact answer; of interest, to the cent."""
    expression, phrasings = random.choice(list(KINDS.items()))
    numbers: dict[str, float] = {
        "a": number(random, split, 1000, 9999),
        "b": number(random, split, 12, 999),
    }
    numbers["c"] = number(random, split, 100, 9999)
    numbers |= {"many": number(random, split, 20, 99), "few": number(random, split, 2, 9)}
    tenths = number(random, split, 11, 89)
    numbers |= {"years": number(random, split, 10, 40), "percent": tenths / 10}
    numbers["growth"] = (1000 + tenths) / 1000
    call = Call("calculator", {"expression": expression.format(**numbers)})
    return Draft(phrasings, numbers, "numeric", {"expected": str(solve(call))}, (call,))

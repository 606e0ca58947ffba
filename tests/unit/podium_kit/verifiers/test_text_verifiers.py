"""Answers are read as people write them, and nothing a model writes breaks the check."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.verifiers import Verifier, load_verifier

WORDS = st.text("bcdfghjkl", min_size=1, max_size=8).filter(lambda word: word != "and")
TEXT_VERIFIERS = ("exact", "numeric", "set", "contains")


def verifier(name: str, expected: object, **parameters: object) -> Verifier:
    return load_verifier(name, {"expected": expected, **parameters})


def accepts(name: str, answer: str, expected: object) -> bool:
    return verifier(name, expected).judge(answer).solved


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("exact", " The  TUESDAY. ", "Tuesday"),
        ("exact", "Brasília", "Brasilia"),
        ("exact", "noon", ["midday", "noon"]),
        ("numeric", "The answer is 1,234.50 dollars.", "1234.5"),
        ("numeric", "The answer is 1,234.50 dollars.", 1234.5),
        ("numeric", "12 * 12 = 144", "144"),
        ("numeric", "about \u221240 degrees", "-40"),
        ("numeric", "6.02e23 per mole", "6.02e23"),
        ("contains", "It is the Euro (EUR).", "EUR"),
        ("contains", "Ulaanbaatar, in Mongolia", "ulaanbaatar"),
    ],
)
def test_right_answer_is_accepted(name: str, answer: str, expected: object) -> None:
    assert accepts(name, answer, expected)


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("exact", "Tuesday or Wednesday", "Tuesday"),
        ("numeric", "no idea", "4"),
        ("numeric", "44", "4"),
        ("numeric", "4 or 5", "4"),
        ("contains", "European", "euro"),
        ("contains", "", "euro"),
        ("contains", "Spain", ["Spain", "France"]),
    ],
)
def test_wrong_answer_is_rejected(name: str, answer: str, expected: object) -> None:
    assert not accepts(name, answer, expected)


def test_set_ignores_order_and_joining_words() -> None:
    countries = ["France", "Italy", "Monaco", "Spain"]
    assert accepts("set", "Spain, France, Monaco and Italy", countries)
    assert not accepts("set", "Spain and France", countries)
    assert not accepts("set", "Spain, France, Italy, Monaco, Peru", countries)


def test_set_says_what_is_missing_and_what_is_too_much() -> None:
    verdict = verifier("set", ["France", "Italy"]).judge("Italy, Peru")
    assert "missing ['france']" in verdict.explanation
    assert "not expected ['peru']" in verdict.explanation


def test_tolerance_is_absolute_and_inclusive() -> None:
    near = verifier("numeric", "10", tolerance=0.1)
    assert near.judge("10.1").solved
    assert not near.judge("10.11").solved


@pytest.mark.parametrize("start", ["", "1."])
def test_a_million_digits_are_read_once(start: str) -> None:
    # Reading them once for each digit takes an hour.
    assert not accepts("numeric", f"{start}{'1' * 1_000_000}a1", "4")


@pytest.mark.parametrize("name", TEXT_VERIFIERS)
@given(answer=st.text())
def test_no_answer_breaks_a_verifier(name: str, answer: str) -> None:
    verdict = verifier(name, "42").judge(answer)
    assert verdict.score in (0.0, 1.0)
    assert len(verdict.explanation) <= 500


@pytest.mark.parametrize("name", TEXT_VERIFIERS)
@given(number=st.integers(0, 10**6))
def test_the_expected_answer_itself_is_accepted(name: str, number: int) -> None:
    assert accepts(name, str(number), number)
    assert not accepts(name, str(number + 1), number)


@given(st.decimals(-(10**9), 10**9, places=4), st.decimals(0, 1000, places=2))
def test_number_within_tolerance_is_accepted_in_a_sentence(
    number: Decimal, tolerance: Decimal
) -> None:
    near = verifier("numeric", f"{number:f}", tolerance=tolerance)
    assert near.judge(f"I get {number + tolerance:,f}.").solved
    assert not near.judge(f"I get {number + tolerance + 1:f}.").solved


@given(st.lists(WORDS, min_size=1, unique=True))
def test_every_order_of_a_set_is_accepted(words: list[str]) -> None:
    shuffled = sorted(words, key=hash)
    assert accepts("set", ", ".join(shuffled), words)
    assert not accepts("set", ", ".join([*shuffled, "zzz"]), words)


@given(st.text(), WORDS, st.text())
def test_phrase_between_other_text_is_contained(before: str, word: str, after: str) -> None:
    assert accepts("contains", f"{before} {word} {after}", word)

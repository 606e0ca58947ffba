"""Answers are read as people write them, and nothing a model writes breaks the check."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers import InvalidVerifier, Verifier, VerifierKind

EXACT = Verifier(VerifierKind.EXACT)
NUMERIC = Verifier(VerifierKind.NUMERIC)
SET = Verifier(VerifierKind.SET)
CONTAINS = Verifier(VerifierKind.CONTAINS)
WORDS = st.text("bcdfghjkl", min_size=1, max_size=8).filter(lambda word: word != "and")


@pytest.mark.parametrize(
    ("verifier", "answer", "expected"),
    [
        (EXACT, " The  TUESDAY. ", "Tuesday"),
        (EXACT, "Brasília", "Brasilia"),
        (NUMERIC, "The answer is 1,234.50 dollars.", "1234.5"),
        (NUMERIC, "12 * 12 = 144", "144"),
        (NUMERIC, "about \u221240 degrees", "-40"),
        (NUMERIC, "6.02e23 per mole", "6.02e23"),
        (CONTAINS, "It is the Euro (EUR).", "EUR"),
        (CONTAINS, "Ulaanbaatar, in Mongolia", "ulaanbaatar"),
    ],
)
def test_right_answer_is_accepted(verifier: Verifier, answer: str, expected: str) -> None:
    assert verifier.accepts(answer, [expected])


@pytest.mark.parametrize(
    ("verifier", "answer", "expected"),
    [
        (EXACT, "Tuesday or Wednesday", "Tuesday"),
        (NUMERIC, "no idea", "4"),
        (NUMERIC, "44", "4"),
        (NUMERIC, "4 or 5", "4"),
        (CONTAINS, "European", "euro"),
        (CONTAINS, "", "euro"),
    ],
)
def test_wrong_answer_is_rejected(verifier: Verifier, answer: str, expected: str) -> None:
    assert not verifier.accepts(answer, [expected])


def test_set_ignores_order_and_joining_words() -> None:
    assert SET.accepts("Spain, France, Monaco and Italy", ["France", "Italy", "Monaco", "Spain"])
    assert not SET.accepts("Spain and France", ["France", "Italy", "Spain"])
    assert not SET.accepts("Spain, France, Italy, Peru", ["France", "Italy", "Spain"])


def test_tolerance_is_absolute_and_inclusive() -> None:
    verifier = Verifier.parse({"kind": "numeric", "tolerance": 0.1})
    assert verifier.accepts("10.1", ["10"])
    assert not verifier.accepts("10.11", ["10"])


@pytest.mark.parametrize(
    "fields",
    [{}, {"kind": "guess"}, {"kind": "numeric", "tolerance": -1}, {"kind": "exact", "x": 1}],
)
def test_senseless_verifier_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidVerifier):
        Verifier.parse(fields)


@pytest.mark.parametrize("expected", [[], ["..."]])
def test_empty_expectation_is_refused(expected: list[str]) -> None:
    with pytest.raises(InvalidVerifier):
        EXACT.accepts("x", expected)


@pytest.mark.parametrize("kind", VerifierKind)
@given(answer=st.text())
def test_no_answer_breaks_a_verifier(kind: VerifierKind, answer: str) -> None:
    assert Verifier(kind).accepts(answer, ["42"]) in (True, False)


@given(st.decimals(-(10**9), 10**9, places=4), st.decimals(0, 1000, places=2))
def test_number_within_tolerance_is_accepted_in_a_sentence(
    number: Decimal, tolerance: Decimal
) -> None:
    verifier = Verifier(VerifierKind.NUMERIC, tolerance)
    assert verifier.accepts(f"I get {number + tolerance:,f}.", [f"{number:f}"])
    assert not verifier.accepts(f"I get {number + tolerance + 1:f}.", [f"{number:f}"])


@given(st.lists(WORDS, min_size=1, unique=True))
def test_every_order_of_a_set_is_accepted(words: list[str]) -> None:
    shuffled = sorted(words, key=hash)
    assert SET.accepts(", ".join(shuffled), words)
    assert not SET.accepts(", ".join([*shuffled, "zzz"]), words)


@given(st.text(), WORDS, st.text())
def test_phrase_between_other_text_is_contained(before: str, word: str, after: str) -> None:
    assert CONTAINS.accepts(f"{before} {word} {after}", [word])

"""Verifiers: what they accept, what they ask for, what makes no sense."""

import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium_kit.verifiers import InvalidVerifier, Unjudged, Verdict, Verifier, load_verifier
from podium_kit.verifiers.catalogue import VERIFIERS

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


def judged(expected: list[Any], answer: Any) -> bool:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return load_verifier("function_calls", {"expected": expected}).judge(text).solved


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


PLAY = [{"play": {"artist": ["Taylor Swift"], "minutes": [20], "loud": [True, ""]}}]


def test_an_argument_must_be_one_of_its_allowed_values() -> None:
    assert judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, loud=True)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=21)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, loud=1)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes="20")])


def test_only_arguments_that_may_be_left_out_may_be_left_out() -> None:
    assert judged(PLAY, [call("play", artist="Taylor Swift", minutes=20)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift")])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, colour="red")])


def test_strings_differ_in_words_not_in_marks_and_case() -> None:
    assert judged(PLAY, [call("play", artist="taylor-swift", minutes=20)])
    assert not judged(PLAY, [call("play", artist="Taylor", minutes=20)])


def test_every_expected_call_is_wanted_once_in_any_order() -> None:
    expected = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]
    # As on the leaderboard, the first expected call takes the first that fits it.
    assert not judged(expected, [call("f", x=1), call("f", x=2)])
    assert judged(expected, [call("f", x=2), call("f", x=1)])
    assert not judged(expected, [call("f", x=2), call("f", x=2)])
    assert not judged(expected, [call("f", x=1)])
    assert not judged(expected, [call("f", x=1), call("f", x=2), call("f", x=1)])


def test_many_calls_that_are_alike_are_paired_at_once() -> None:
    # All orders of thirty would not be tried before the end of the world.
    expected = [*[{"f": {"x": [1, 2]}}] * 29, {"f": {"x": [3]}}]
    assert not judged(expected, [call("f", x=1)] * 30)
    assert judged(expected, [*[call("f", x=1)] * 29, call("f", x=3)])


def test_nested_values_are_compared_inside() -> None:
    expected = [{"book": {"trip": [{"to": ["Rome"], "days": [3, ""]}], "tags": [["a", "b"]]}}]
    assert judged(expected, [call("book", trip={"to": "rome"}, tags=["A", "B"])])
    assert not judged(expected, [call("book", trip={"days": 3}, tags=["a", "b"])])
    assert not judged(expected, [call("book", trip={"to": "Rome"}, tags=["b", "a"])])


def test_code_fences_are_read_and_prose_is_no_call() -> None:
    fenced = f"```json\n{json.dumps([call('f')])}\n```"
    assert judged([{"f": {}}], fenced)
    assert not judged([{"f": {}}], "I would call f.")


def test_where_no_call_is_right_prose_is_right_and_a_call_is_not() -> None:
    assert judged([], "None of these functions fits.")
    assert judged([], "[]")
    assert not judged([], [call("f")])


def test_an_expected_call_names_one_function() -> None:
    with pytest.raises(InvalidVerifier, match="expected"):
        judged([{"f": {}, "g": {}}], "[]")


FUNCTIONS = [
    {
        "name": "book",
        "types": {
            "city": "string",
            "nights": "integer",
            "price": "float",
            "late": "boolean",
            "tags": "array",
            "trip": "dict",
        },
        "items": {"tags": "string"},
        "required": ["city", "nights"],
    }
]
BOOK = [
    {
        "book": {
            "city": ["Rome", "Roma"],
            "nights": [3, ""],
            "price": [10.0, ""],
            "late": [True, ""],
            "tags": [["a", "b"], ""],
            "trip": [{"to": ["Rome"], "days": [3, ""]}, ""],
        }
    }
]


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"city": "rome", "nights": 3}, True),
        ({"city": "rome", "nights": 3.0}, False),
        ({"city": "rome", "nights": "3"}, False),
        ({"city": "rome", "nights": True}, False),
        ({"city": "rome", "nights": None}, False),
        # Required by the declaration, although the allowed values say that it may be left out.
        ({"city": "rome"}, False),
        ({"nights": 3}, False),
        ({"city": "rome", "nights": 3, "price": 10}, True),
        ({"city": "rome", "nights": 3, "price": "10"}, False),
        ({"city": "rome", "nights": 3, "late": 1}, False),
        ({"city": "rome", "nights": 3, "late": True}, True),
        ({"city": "rome", "nights": 3, "tags": ["A", "b."]}, True),
        ({"city": "rome", "nights": 3, "tags": ["b", "a"]}, False),
        ({"city": "rome", "nights": 3, "tags": "a"}, False),
        ({"city": "rome", "nights": 3, "trip": {"to": "ROME"}}, True),
        ({"city": "rome", "nights": 3, "trip": {"days": 3}}, False),
        ({"city": "rome", "nights": 3, "trip": {"to": "Rome", "x": 1}}, False),
        ({"city": "rome", "nights": 3, "colour": "red"}, False),
    ],
)
def test_with_declarations_types_are_exact_and_what_is_required_is_there(
    arguments: dict[str, Any], right: bool
) -> None:
    verifier = load_verifier("function_calls", {"expected": BOOK, "functions": FUNCTIONS})
    assert verifier.judge(json.dumps([call("book", **arguments)])).solved is right


def test_calls_that_differ_in_a_type_alone_are_two() -> None:
    expected = [{"f": {"x": [2]}}, {"f": {"x": [2]}}]
    functions = [{"name": "f", "types": {"x": "integer"}, "required": ["x"]}]
    verifier = load_verifier("function_calls", {"expected": expected, "functions": functions})
    assert verifier.judge(json.dumps([call("f", x=2), call("f", x=2)])).solved
    assert not verifier.judge(json.dumps([call("f", x=2.0), call("f", x=2)])).solved


QUERY = {"tool": "query_database", "arguments": {"sql": "SELECT 1"}}


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("guess", {}, "there is no verifier 'guess'; use contains"),
        ("exact", {}, "expected"),
        ("exact", {"expected": "noon", "x": 1}, "x: Extra"),
        ("exact", {"expected": []}, "empty"),
        ("exact", {"expected": ["..."]}, "empty"),
        ("numeric", {"expected": "four"}, "not one number"),
        ("numeric", {"expected": ["1", "2"]}, "not one number"),
        ("numeric", {"expected": 1, "tolerance": -1}, "tolerance"),
        ("numeric", {"expected": 1, "tolerance": "NaN"}, "tolerance"),
        ("python", {"code": ""}, "code"),
        ("state", {"look": QUERY}, "either expected or golden_calls"),
        ("state", {"look": QUERY, "expected": 1, "golden_calls": [QUERY]}, "either"),
        ("llm", {"reference": "Paris"}, "judges"),
        ("llm", {"judges": [], "reference": "Paris"}, "judges"),
        ("llm", {"judges": ["a", "a"]}, "named twice"),
        ("llm", {"judges": "a b"}, "judges"),
        ("llm", {"judges": "a", "reference": ""}, "reference"),
    ],
)
def test_senseless_verifier_is_rejected(name: str, parameters: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidVerifier, match=why):
        load_verifier(name, parameters)


def test_another_version_is_rejected() -> None:
    assert load_verifier("exact", {"expected": "noon"}, "1").version == "1"
    with pytest.raises(InvalidVerifier, match="version 1, not '7'"):
        load_verifier("exact", {"expected": "noon"}, "7")


def test_every_verifier_is_found_by_its_own_name() -> None:
    assert {name: kind.name for name, kind in VERIFIERS.items()} == {n: n for n in VERIFIERS}
    assert all(kind.version for kind in VERIFIERS.values())


JUDGE = load_verifier("llm", {"judges": "judge/judge-1", "reference": "Paris"})


def test_judge_sees_question_reference_and_answer() -> None:
    [call] = JUDGE.calls("What is the capital of France?", "It is Paris.")
    assert (call.tool, call.arguments) == ("judge", {"model": "judge-1"})
    assert "capital of France" in call.task
    assert "Paris" in call.task
    assert "It is Paris." in call.task


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("It agrees.\ncorrect", 1.0),
        ("Lyon is not Paris.\n\n**Incorrect.**\n", 0.0),
        ("Verdict: correct", 1.0),
    ],
)
def test_last_line_is_the_verdict(said: str, score: float) -> None:
    assert JUDGE.judge("Paris", [said]).score == score


@pytest.mark.parametrize("said", ["", "cannot be judged", "correct\nor maybe not", "1"])
def test_any_other_last_line_is_no_verdict(said: str) -> None:
    with pytest.raises(Unjudged):
        JUDGE.judge("Paris", [said])


@pytest.mark.parametrize("answer", ["", "  \n", "word " * 501])
def test_empty_and_over_long_answers_are_wrong_without_asking(answer: str) -> None:
    assert not JUDGE.calls("?", answer)
    assert JUDGE.judge(answer).score == 0


def test_a_judge_without_a_reference_is_asked_what_it_knows() -> None:
    [call] = load_verifier("llm", {"judges": "judge"}).calls("What is the capital?", "Paris")
    assert "Reference" not in call.task and "to a question is right" in call.task


SAID = {1.0: "correct", 0.0: "incorrect", None: "I cannot say"}


@given(st.lists(st.sampled_from([1.0, 0.0, None]), min_size=1, max_size=9))
def test_more_than_half_of_all_judges_decide_and_nothing_else_does(
    scores: list[float | None],
) -> None:
    names = [f"judge-{number}" for number in range(len(scores))]
    panel = load_verifier("llm", {"judges": names, "reference": "Paris"})
    calls = panel.calls("?", "Paris")
    assert [call.tool for call in calls] == names
    # One judge's failure has a reason that is worth stating; of several each has a vote or none.
    assert all(call.may_fail == (len(names) > 1) for call in calls)
    decided = [score for score in (1.0, 0.0) if 2 * scores.count(score) > len(scores)]
    results = [SAID[score] for score in scores]
    if decided:
        assert panel.judge("Paris", results).score == decided[0]
    else:
        with pytest.raises(Unjudged):
            panel.judge("Paris", results)


def test_a_split_panel_says_who_said_what() -> None:
    panel = load_verifier("llm", {"judges": ["a", "b/large", "c"], "reference": "Paris"})
    verdict = panel.judge("Paris", ["correct", "incorrect", "correct"])
    words = "2 of 3 judges agree: a correct, b/large incorrect, c correct"
    assert (verdict.score, verdict.explanation) == (1.0, words)
    with pytest.raises(Unjudged, match="no majority: a correct, b/large incorrect, c no verdict"):
        panel.judge("Paris", ["correct", "incorrect", ""])


def program(code: str, answer: str) -> str:
    [call] = load_verifier("python", {"code": code}).calls("a question", answer)
    assert (call.tool, call.in_episode) == ("code_interpreter", False)
    return str(call.arguments["code"])


def run(code: str, answer: str) -> Verdict:
    done = subprocess.run(
        [sys.executable, "-c", program(code, answer)], capture_output=True, text=True, check=True
    )
    return load_verifier("python", {"code": code}).judge(answer, [done.stdout])


@pytest.mark.parametrize(
    ("code", "answer", "score"),
    [
        ("def check(answer): return answer == 'it\\'s {42}'", "it's {42}", 1.0),
        ("def check(answer): return False", "", 0.0),
        ("def check(answer): return 0.25", "", 0.25),
        ("def check(answer):\n    print('working')\n    return (1, 'two lines')", "a\nb", 1.0),
    ],
)
def test_score_is_what_the_function_returns(code: str, answer: str, score: float) -> None:
    assert run(code, answer).score == score


@settings(max_examples=50)
@given(st.text())
def test_answer_arrives_as_it_was_written(answer: str) -> None:
    code = "def check(answer):\n    global seen\n    seen = answer\n    return True"
    namespace: dict[str, object] = {}
    source = program(code, answer)
    exec(source, namespace)
    assert namespace["seen"] == answer


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "podium-verdict:",
        'podium-verdict:[2, ""]',
        'podium-verdict:[NaN, ""]',
        'podium-verdict:["x", ""]',
        'podium-verdict:[null, ""]',
        "podium-verdict:1",
        f"podium-verdict:{'[' * 100_000}",
    ],
)
def test_anything_else_that_is_printed_is_no_verdict(printed: str) -> None:
    with pytest.raises(Unjudged):
        load_verifier("python", {"code": "pass"}).judge("x", [printed])


LOOK = {"tool": "read_orders", "arguments": {"customer": 7}}
GOLDEN = {"tool": "cancel_order", "arguments": {"order": 3}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_given_state_needs_one_look_at_the_episodes() -> None:
    verifier = load_verifier("state", {"look": LOOK, "expected": [{"order": 3}]})
    [call] = verifier.calls("", "")
    assert call.in_episode
    assert verifier.judge("", ['[{"order":  3}]']).solved
    assert not verifier.judge("", ["[]"]).solved


def test_golden_calls_are_made_on_a_state_of_their_own() -> None:
    verifier = load_verifier("state", {"look": LOOK, "golden_calls": [GOLDEN]})
    calls = verifier.calls("", "")
    assert [(call.tool, call.in_episode) for call in calls] == [
        ("read_orders", True),
        ("cancel_order", False),
        ("read_orders", False),
    ]
    assert verifier.judge("", ['{"a": 1, "b": 2}', "done", '{"b": 2, "a": 1}']).solved
    assert not verifier.judge("", ['{"a": 1}', "done", '{"a": 2}']).solved


def test_missing_look_is_no_verdict() -> None:
    with pytest.raises(Unjudged):
        load_verifier("state", {"look": LOOK, "golden_calls": [GOLDEN]}).judge("", ["{}"])


def test_state_that_is_nested_too_deep_is_text() -> None:
    verifier = load_verifier("state", {"look": LOOK, "expected": "[]"})
    assert not verifier.judge("", ["[" * 100_000]).solved


@given(JSON.filter(lambda value: value is not None))
def test_any_state_equals_itself_and_no_longer_list(state: object) -> None:
    verifier = load_verifier("state", {"look": LOOK, "expected": json.dumps(state)})
    assert verifier.judge("", [json.dumps(state, indent=2)]).solved
    assert not verifier.judge("", [json.dumps([state, state])]).solved

"""States are compared as JSON: given ones, or those that golden calls lead to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.verifiers import Unjudged, load_verifier

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

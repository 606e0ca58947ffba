"""Mistakes in files and bodies: the field as written, what was given, and one right example."""

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from podium.episodes.v1 import webhook_service_pb2
from podium.ledger.v1 import budget_service_pb2
from podium.registry.v1 import policy_pb2, tool_pb2
from podium_kit.wire import InvalidField, json_values, merge_written

POLICY, TOOL = policy_pb2.PolicySpec, tool_pb2.ToolSpec


def problem_of(kind: type[Message], values: dict[str, Any]) -> str:
    with pytest.raises(InvalidField) as rejected:
        merge_written(values, kind())
    return str(rejected.value)


@pytest.mark.parametrize(
    ("kind", "values", "parts"),
    [
        (POLICY, {"preset": ["x"]}, ("preset", '["x"] is not a word', "cost-first")),
        (POLICY, {"preset": "cost_frist"}, ("preset", "did you mean cost-first?")),
        (POLICY, {"deny": ["code"]}, ("deny", '["code"] is not a mapping', 'deny: {names: ["te')),
        (POLICY, {"deny": {"kind": ["code"]}}, ("deny.kind", "did you mean kinds?")),
        (POLICY, {"deny": {"kinds": ["cod"]}}, ("deny.kinds[0]", "did you mean code?")),
        (POLICY, {"required_tags": "x"}, ("required_tags", "not a list", 'required_tags: ["x"]')),
        (POLICY, {"preferences": {"tools": ["calculator"]}}, ("preferences.tools", "entries")),
        (POLICY, {"preferences": {"outcome": "high"}}, ("preferences.outcome", "outcome: 0.5")),
        (POLICY, {"price_ceiling": ["1"]}, ("price_ceiling", "amount of money", "0.05 USD")),
        (POLICY, {"price_ceiling": {"amount": 1}}, ("price_ceiling.amount", 'amount: "1"')),
        (POLICY, {"price_ceiling": {"sum": "1"}}, ("price_ceiling.sum", "amount, currency_code")),
        (POLICY, {"latency_ceiling": "soon"}, ("latency_ceiling", "length of time", "90s")),
        (POLICY, {"training_consent": "yes"}, ("training_consent", "true or false")),
        (POLICY, {"name": 12}, ("name", "12 is not text", 'name: "12"')),
        (POLICY, {"nmae": "x"}, ("nmae", "there is no such field", "did you mean name?")),
        (TOOL, {"parameters_json_schema": "{}", "parameters": {}}, ("given twice", "leave one")),
        (TOOL, {"sideEffect": "pure", "side_effect": "pure"}, ("side_effect", "given twice")),
        (TOOL, {"parameter": {}}, ("parameter", "did you mean parameters?")),
        (TOOL, {"limits": {"max_concurrency": "many"}}, ("limits.", "whole number", ": 3")),
        (TOOL, {"limits": {"max_concurrency": 2**40}}, ("limits.", "is not between")),
        (TOOL, {"connection": {"http": {}, "function": {}}}, ("excludes http", "leave one")),
        (
            budget_service_pb2.Budget,
            {"start_time": "tomorrow"},
            ("start_time", "not a time", "2026-03-01T14:00:00Z"),
        ),
    ],
)
def test_a_mistake_names_the_field_the_value_and_an_example(
    kind: type[Message], values: dict[str, Any], parts: tuple[str, ...]
) -> None:
    problem = problem_of(kind, values)
    assert all(part in problem for part in parts), problem
    words = ("podium.", "JSON value", "unhashable", "Message", "iterable", "_json_schema")
    assert not any(word in problem for word in words), problem


def test_money_and_durations_may_be_numbers() -> None:
    policy = POLICY()
    merge_written({"price_ceiling": 0.00001, "latency_ceiling": 20}, policy)
    assert (policy.price_ceiling.amount, policy.price_ceiling.currency_code) == ("0.00001", "USD")
    assert policy.latency_ceiling.seconds == 20
    merge_written({"latency_ceiling": "5m"}, policy)
    assert policy.latency_ceiling.seconds == 300


def test_event_types_of_a_webhook_are_taken_in_the_words_of_the_documentation() -> None:
    request = webhook_service_pb2.PutWebhookRequest()
    merge_written({"event_types": ["episode.ended", "budget-alert"]}, request)
    assert list(request.event_types) == [
        webhook_service_pb2.WEBHOOK_EVENT_TYPE_EPISODE_ENDED,
        webhook_service_pb2.WEBHOOK_EVENT_TYPE_BUDGET_ALERT,
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = [field.name for kind in (POLICY, TOOL) for field in kind.DESCRIPTOR.fields]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3), st.sampled_from([POLICY, TOOL]))
def test_any_json_is_read_or_rejected_by_field(values: dict[str, Any], kind: type[Message]) -> None:
    message = kind()
    try:
        merge_written(values, message)
    except InvalidField as error:
        assert error.problem and error.fix
        return
    again = kind()
    merge_written(json.loads(json.dumps(json_values(message))), again)
    assert again == message


@pytest.mark.parametrize("digits", [400, 4_000])
def test_an_amount_of_hundreds_of_digits_is_read_as_it_is(digits: int) -> None:
    policy = POLICY()
    merge_written({"price_ceiling": 10**digits}, policy)
    assert policy.price_ceiling.amount == f"1{'0' * digits}"

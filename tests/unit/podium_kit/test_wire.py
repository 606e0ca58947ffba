"""Messages of the contract as values, and as people write them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.episodes.v1 import webhook_service_pb2
from podium.ledger.v1 import budget_service_pb2, price_book_service_pb2
from podium.registry.v1 import policy_pb2, tool_pb2
from podium_kit import wire
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension, InvalidUsage, Quantity, Usage, UsageSource
from podium_kit.money import InvalidMoney, Money
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import InvalidField, json_values, merge_written
from podium_kit.wire.values import dimension_from_proto, dimension_to_proto

MONEY = st.builds(
    lambda units, code: Money(Decimal(units).scaleb(-12), code),
    st.integers(-(10**28) + 1, 10**28 - 1),
    st.sampled_from(["USD", "EUR"]),
)
AMOUNTS = st.decimals(0, 10**15, places=9)
QUANTITIES = st.dictionaries(st.sampled_from(Dimension), AMOUNTS).map(
    lambda amounts: tuple(Quantity(name, amount) for name, amount in amounts.items())
)
USAGES = st.builds(Usage, QUANTITIES, st.sampled_from(UsageSource), st.text(max_size=20))
NANOSECONDS = st.integers(0, 10**15)
FAILURES = st.builds(
    ToolFailure,
    st.sampled_from(FailureKind),
    st.text(max_size=40),
    st.booleans(),
    st.none() | NANOSECONDS.map(lambda count: count / 1e9),
)


@given(MONEY)
def test_money_comes_back(money: Money) -> None:
    message = money_pb2.Money.FromString(wire.money_to_proto(money).SerializeToString())
    assert wire.money_from_proto(message) == money
    assert wire.optional_money_from_proto(message) == money


def test_unset_money_is_unknown_or_rejected_and_never_zero() -> None:
    assert wire.optional_money_from_proto(money_pb2.Money()) is None
    with pytest.raises(InvalidMoney):
        wire.money_from_proto(money_pb2.Money())


@pytest.mark.parametrize(("amount", "currency_code"), [("1", ""), ("", "USD")])
def test_half_set_money_is_rejected(amount: str, currency_code: str) -> None:
    message = money_pb2.Money(amount=amount, currency_code=currency_code)
    with pytest.raises(InvalidMoney):
        wire.optional_money_from_proto(message)


@pytest.mark.parametrize("dimension", Dimension)
def test_every_dimension_comes_back(dimension: Dimension) -> None:
    assert dimension_to_proto(dimension) != usage_pb2.USAGE_DIMENSION_UNSPECIFIED
    assert dimension_from_proto(dimension_to_proto(dimension)) is dimension


@given(USAGES)
def test_usage_comes_back(usage: Usage) -> None:
    message = usage_pb2.Usage.FromString(wire.usage_to_proto(usage).SerializeToString())
    assert wire.usage_from_proto(message) == usage


def test_usage_without_source_is_rejected() -> None:
    with pytest.raises(InvalidUsage, match=r"usage\.source is unset"):
        wire.usage_from_proto(usage_pb2.Usage())


@pytest.mark.parametrize("number", [usage_pb2.USAGE_DIMENSION_UNSPECIFIED, 999])
def test_unset_or_unknown_dimension_is_rejected(number: usage_pb2.UsageDimension.ValueType) -> None:
    with pytest.raises(InvalidUsage, match="dimension is unset"):
        wire.quantities_from_proto([usage_pb2.Quantity(dimension=number, amount="1")])


@pytest.mark.parametrize(
    "amount",
    [
        "",
        "NaN",
        "Infinity",
        "-1",
        "-0",
        "1e3",
        "1E+999999",
        "1_000",
        " 1",
        "1\n",
        ".5",
        "\u0661",
        "1" * 17,
        "0." + "1" * 41,
    ],
)
def test_amount_that_is_no_plain_decimal_is_rejected(amount: str) -> None:
    message = usage_pb2.Quantity(dimension=usage_pb2.USAGE_DIMENSION_CALL, amount=amount)
    with pytest.raises(InvalidUsage, match=r"quantity\.amount"):
        wire.quantities_from_proto([message])


@pytest.mark.parametrize(
    ("amount", "text"), [("1E-7", "0.0000001"), ("1E+3", "1000"), ("-0", "0"), ("0.2500", "0.2500")]
)
def test_amount_is_written_without_exponent_and_sign(amount: str, text: str) -> None:
    [message] = wire.quantities_to_proto([Quantity(Dimension.SECOND, Decimal(amount))])
    assert message.amount == text


@given(FAILURES)
def test_failure_comes_back(failure: ToolFailure) -> None:
    message = wire.failure_to_proto(failure)
    assert (
        wire.failure_from_proto(failure_pb2.Failure.FromString(message.SerializeToString()))
        == failure
    )


@pytest.mark.parametrize("kind", FailureKind)
def test_every_failure_kind_comes_back(kind: FailureKind) -> None:
    assert wire.failure_from_proto(wire.failure_to_proto(ToolFailure(kind, "why"))).kind is kind


def test_failure_without_kind_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match=r"failure\.kind is unset"):
        wire.failure_from_proto(failure_pb2.Failure(message="why"))


def test_no_wait_is_not_a_wait_of_zero_seconds() -> None:
    silent = ToolFailure(FailureKind.RATE_LIMITED, "why", retryable=True)
    at_once = ToolFailure(FailureKind.RATE_LIMITED, "why", retryable=True, retry_after_s=0.0)
    assert wire.failure_from_proto(wire.failure_to_proto(silent)).retry_after_s is None
    assert wire.failure_from_proto(wire.failure_to_proto(at_once)).retry_after_s == 0.0


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])))
def test_moment_comes_back_in_utc(moment: datetime) -> None:
    returned = wire.timestamp_from_proto(wire.timestamp_to_proto(moment))
    assert returned == moment
    assert returned.tzinfo is UTC


@pytest.mark.parametrize(
    "message",
    [
        Timestamp(seconds=10**15),
        Timestamp(seconds=-(10**12)),
        Timestamp(nanos=-1),
        Timestamp(nanos=10**9),
    ],
)
def test_timestamp_outside_of_the_calendar_is_rejected(message: Timestamp) -> None:
    with pytest.raises(InvalidArgument, match="timestamp of"):
        wire.timestamp_from_proto(message)


@given(st.integers(-(10**15), 10**15))
def test_duration_comes_back_to_the_nanosecond(nanoseconds: int) -> None:
    seconds = nanoseconds / 1e9
    assert wire.duration_from_proto(wire.duration_to_proto(seconds)) == seconds


PAIRS: list[tuple[type[StrEnum], EnumDescriptor, str]] = [
    (Dimension, usage_pb2.UsageDimension.DESCRIPTOR, "USAGE_DIMENSION_"),
    (UsageSource, usage_pb2.UsageSource.DESCRIPTOR, "USAGE_SOURCE_"),
    (FailureKind, failure_pb2.FailureKind.DESCRIPTOR, "FAILURE_KIND_"),
]


@pytest.mark.parametrize(("domain", "wire_enum", "prefix"), PAIRS)
def test_every_wire_value_but_unspecified_has_a_domain_value(
    domain: type[StrEnum], wire_enum: EnumDescriptor, prefix: str
) -> None:
    names = {value.name.removeprefix(prefix) for value in wire_enum.values}
    assert names - {"UNSPECIFIED"} == {member.name for member in domain}
    assert wire_enum.values_by_number[0].name == prefix + "UNSPECIFIED"


@pytest.mark.parametrize(("domain", "_wire_enum", "_prefix"), PAIRS)
def test_domain_value_is_the_name_in_lower_case(
    domain: type[StrEnum], _wire_enum: EnumDescriptor, _prefix: str
) -> None:
    assert all(member.value == member.name.lower() for member in domain)


UNSET = "PARAMETER_LOCATION_UNSPECIFIED"


def test_enums_that_say_something_stay_and_others_are_left_out() -> None:
    tool = tool_pb2.ToolSpec(name="a", kind=tool_pb2.TOOL_KIND_HTTP)
    values = json_values(tool)
    assert values["kind"] == "TOOL_KIND_HTTP"
    assert (values["description"], values["tags"]) == ("", [])
    assert "side_effect" not in values


def test_so_are_those_in_lists_in_maps_and_below_them() -> None:
    http = tool_pb2.HttpConnection(headers={"x": UNSET})
    http.parameter_locations["a"] = tool_pb2.PARAMETER_LOCATION_PATH
    http.parameter_locations["b"] = tool_pb2.PARAMETER_LOCATION_UNSPECIFIED
    values = json_values(tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=http)))[
        "connection"
    ]["http"]
    assert values["parameter_locations"] == {"a": "PARAMETER_LOCATION_PATH"}
    # A text of the caller is no enum.
    assert values["headers"] == {"x": UNSET}

    component = price_book_service_pb2.PriceComponent(unit_price="1")
    spec = price_book_service_pb2.PriceSpec(
        sku="a", components=[component], start_time=Timestamp(seconds=1)
    )
    effective = price_book_service_pb2.GetEffectivePricesResponse()
    effective.prices["a"].spec.CopyFrom(spec)
    priced = json_values(effective)["prices"]["a"]["spec"]
    assert priced["start_time"] == "1970-01-01T00:00:01Z"
    assert "dimension" not in priced["components"][0]
    component.dimension = usage_pb2.USAGE_DIMENSION_CALL
    assert json_values(component)["dimension"] == "USAGE_DIMENSION_CALL"


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


@pytest.mark.parametrize(
    "mask", ["hard_limit,soft_limits", "hardLimit,softLimits", "hard_limit, softLimits"]
)
def test_a_field_mask_names_fields_in_either_form(mask: str) -> None:
    request = budget_service_pb2.UpdateBudgetRequest()
    merge_written({"update_mask": mask}, request)
    assert list(request.update_mask.paths) == ["hard_limit", "soft_limits"]
    problem = problem_of(budget_service_pb2.UpdateBudgetRequest, {"update_mask": ["hard_limit"]})
    assert "update_mask" in problem and "hard_limit,end_time" in problem


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

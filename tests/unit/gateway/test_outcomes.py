from decimal import Decimal
from uuid import UUID

import pytest

from gateway.chat.outcomes import episode_error, finish_reason
from gateway.chat.response import podium, usage
from gateway.convert import direct_outcome_from_proto, outcome_from_proto
from gateway.http.error_responses import error_body, error_response, http_status
from gateway.messages.response import message
from gateway.models import Outcome, StopReason
from gateway.responses.ids import ResponseId
from gateway.responses.response import Shape
from gateway.tally import Tally
from podium.episodes.v1 import direct_call_service_pb2, episode_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension
from podium_kit.money import Money
from podium_kit.rpc.errors import DomainError


def make_outcome(
    stop_reason: StopReason = StopReason.ANSWERED,
    failure: ToolFailure | None = None,
    turn_count: int = 1,
    cost: Money | None = None,
    tally: Tally | None = None,
    answer: str = "",
) -> Outcome:
    return Outcome(
        episode_id="0190",
        stop_reason=stop_reason,
        answer=answer,
        failure=failure,
        turn_count=turn_count,
        tool_call_count=0,
        cost=cost,
        unpriced_call_count=0,
        tally=tally or {},
        policy_name="balanced",
        policy_version=1,
    )


def test_a_limit_before_the_first_turn_is_an_error_and_not_an_empty_answer() -> None:
    with pytest.raises(DomainError) as raised:
        finish_reason(make_outcome(StopReason.DEADLINE, turn_count=0))
    assert http_status(raised.value)[0] == 504


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_a_status_and_a_code(kind: FailureKind) -> None:
    outcome = make_outcome(StopReason.FAILED, ToolFailure(kind, "the cause"))
    error = episode_error(outcome)
    assert http_status(error)[0] >= 400
    too_long = kind is FailureKind.CONTEXT_TOO_LONG
    code = "context_length_exceeded" if too_long else f"episode_{kind.name.lower()}"
    assert error_body(error)["error"]["code"] == code
    assert "the cause" in error.message


def test_a_failure_that_says_when_to_retry_says_so_in_http() -> None:
    failure = ToolFailure(FailureKind.RATE_LIMITED, "slow down", True, retry_after_s=1.2)
    reply = error_response(episode_error(make_outcome(StopReason.FAILED, failure)))
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "2")
    assert reply.headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("reason", "chat", "messages", "responses"),
    [
        ("stop", "stop", "end_turn", None),
        ("length", "length", "max_tokens", "max_output_tokens"),
        ("content_filter", "content_filter", "refusal", "content_filter"),
        ("refusal", "content_filter", "refusal", "content_filter"),
    ],
)
def test_the_reason_for_a_models_end_is_each_apis_own(
    reason: str, chat: str, messages: str, responses: str | None
) -> None:
    """Public report 17."""
    call = direct_call_service_pb2.DirectCall(id="0190", content="half a", finish_reason=reason)
    outcome = direct_outcome_from_proto(call)
    assert finish_reason(outcome) == chat
    assert message(outcome, "m")["stop_reason"] == messages
    assert message(outcome, "m")["content"] == [{"type": "text", "text": "half a"}]
    response = Shape(ResponseId(str(UUID(int=1)), 0), "m").ended(outcome)
    assert response["status"] == ("incomplete" if responses else "completed")
    assert (response["incomplete_details"] or {}).get("reason") == responses


def test_every_token_is_in_the_usage_once() -> None:
    tally = dict.fromkeys(Dimension, Decimal(10))
    counted = usage(make_outcome(tally=tally))
    assert counted["prompt_tokens"] == 50
    assert counted["completion_tokens"] == 30
    assert counted["total_tokens"] == 80
    assert counted["prompt_tokens_details"] == {"cached_tokens": 10}


def test_an_unknown_cost_is_null_and_a_tiny_one_is_exact() -> None:
    assert podium(make_outcome())["cost"] is None
    tiny = Money.parse("0.00000000015", "USD")
    assert podium(make_outcome(cost=tiny))["cost"]["amount"] == "0.00000000015"


def test_what_the_model_was_not_shown_is_in_the_answer() -> None:
    said = "turn 1: not shown to the model, whose context was full: 290 of 329 tools"
    outcome = outcome_from_proto(episode_pb2.Episode(id="0190", warnings=[said]))
    assert podium(outcome)["warnings"] == [said]
    assert "warnings" not in podium(make_outcome())

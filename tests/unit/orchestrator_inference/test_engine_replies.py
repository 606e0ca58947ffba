from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.engine.errors import rejection, retry_after_s
from orchestrator_inference.engine.reply import NotACompletion, completion_from
from orchestrator_inference.errors import EngineRejected, EngineUnwell
from orchestrator_inference.models import (
    Completion,
    Constraint,
    EngineModel,
    Message,
    Sampling,
)
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.rpc.errors import DomainError

CALL = ModelCall(
    "e/1/model/0", EngineModel("m"), (Message("user", "?"),), Sampling(), Constraint({}, "{}", "")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("content", "tool_calls", "finish_reason", "token_ids", "logprobs")


def read(body: Any) -> Completion:
    return completion_from(body, CALL, latency_s=0.1, constrained=True)


def reply(message: Any = None, **fields: Any) -> dict[str, Any]:
    top: dict[str, Any] = {
        name: fields.pop(name) for name in ("model", "usage", "id") if name in fields
    }
    return {"choices": [{"message": message or {"content": "42"}, **fields}], **top}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "dictionary"),
        ({}, "choices"),
        ({"choices": []}, "choices"),
        ({"choices": ["text"]}, "dictionary"),
        (reply({"content": ["42"]}), "message.content"),
        (reply({"tool_calls": [{"function": {"arguments": "{}"}}]}), "tool_calls.0.function.name"),
        (reply(finish_reason=7), "finish_reason"),
        (reply(token_ids=["1"]), "token_ids.0"),
        (reply(token_ids=[-1]), "token_ids.0"),
        (reply(token_ids=[2**31]), "token_ids.0"),
        (reply(logprobs={"content": [{"logprob": "0"}]}), "logprobs.content.0.logprob"),
        (reply(model={"name": "m"}), "model"),
    ],
)
def test_a_field_of_another_type_is_named(body: Any, field: str) -> None:
    with pytest.raises(NotACompletion, match=field.replace(".", r"\.")):
        read(body)


def test_half_a_character_becomes_a_whole_one() -> None:
    half = "a \ud83d"
    call = {"id": half, "function": {"name": half, "arguments": half}}
    found = read(reply({"content": half, "tool_calls": [call]}, finish_reason=half, model=half))
    [native] = found.native_calls
    texts = [found.text, found.finish_reason, found.model_version, native.name, native.call_id]
    assert texts == ["a \ufffd"] * 5


def test_a_usage_that_is_none_is_estimated() -> None:
    assert read(reply(usage=[])).usage.source == "estimated"


@given(st.sampled_from(FIELDS), JSON, JSON)
def test_whatever_a_field_holds_can_be_sent_on_or_is_no_completion(
    name: str, value: Any, other: Any
) -> None:
    inside = {"content": "42", name: value}
    body = reply(inside, model=other, usage=other, id=other, **{name: value})
    try:
        found = read(body)
    except NotACompletion:
        return
    pb.NextActionResponse(
        completion_text=found.text,
        finish_reason=found.finish_reason,
        completion_token_ids=found.token_ids,
        completion_logprobs=found.logprobs,
        model_version=found.model_version,
    ).SerializeToString()


def test_a_wait_until_a_date_that_no_calendar_has_is_ignored() -> None:
    said = {"retry-after": "Mon, 01 Jan 99999999999999 00:00:00 GMT"}
    assert retry_after_s(httpx.Response(429, headers=said)) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, EngineRejected), (408, EngineUnwell), (409, EngineUnwell), (503, EngineUnwell)],
)
def test_what_passes_by_itself_is_a_reason_to_ask_again(
    status: int, kind: type[DomainError]
) -> None:
    said = httpx.Response(status, json={"error": {"message": "the operation timed out"}})
    assert isinstance(rejection("engine", "m", said, None), kind)

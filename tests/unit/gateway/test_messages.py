import json

import pytest

from gateway.chat.catalogue import Choice
from gateway.errors import InvalidChat, MalformedRequest
from gateway.messages.request import MessageRequest
from gateway.responses.request import ResponseRequest
from gateway.rest.messages import merge_body, merge_query, to_json
from podium.episodes.v1 import episode_service_pb2
from podium.ledger.v1 import cost_ledger_service_pb2, price_book_service_pb2
from podium.registry.v1 import policy_service_pb2, tool_registry_service_pb2


def test_a_dot_reaches_into_a_message() -> None:
    request = policy_service_pb2.ExplainToolsetRequest()
    merge_query(request, [("spec.name", "mine"), ("spec.required_tags", "on-premise")])
    assert (request.spec.name, list(request.spec.required_tags)) == ("mine", ["on-premise"])


def test_a_label_may_have_dots_of_its_own() -> None:
    request = episode_service_pb2.ListEpisodesRequest()
    merge_query(request, [("labels.app.team", "search")])
    assert dict(request.labels) == {"app.team": "search"}


@pytest.mark.parametrize(
    "query",
    [
        ("include_deprecated", "perhaps"),
        ("page_size", "4.5"),
        ("kinds", "TOOL_KIND_MAGIC"),
        ("query.words", "a"),
        ("", "a"),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(query: tuple[str, str]) -> None:
    with pytest.raises(MalformedRequest):
        merge_query(tool_registry_service_pb2.ListToolsRequest(), [query])


@pytest.mark.parametrize(
    "query",
    [
        [("labels", "search"), ("labels.team", "search")],
        [("labels.team", "search"), ("labels", "search")],
    ],
)
def test_a_field_given_as_a_whole_and_in_parts_is_rejected(query: list[tuple[str, str]]) -> None:
    with pytest.raises(MalformedRequest):
        merge_query(episode_service_pb2.ListEpisodesRequest(), query)


def test_a_list_of_messages_cannot_be_written_as_a_query() -> None:
    query = [("specs.sku", "a"), ("specs", "b")]
    with pytest.raises(MalformedRequest):
        merge_query(price_book_service_pb2.CreatePricesRequest(), query)


def test_an_empty_body_is_an_empty_message() -> None:
    request = tool_registry_service_pb2.DeprecateToolRequest(name="calculator")
    merge_body(request, b"  ")
    assert request.name == "calculator"


@pytest.mark.parametrize(
    "body", [b"null", b'"text"', b"\xff", b'{"name": {}}', b'{"name": "\\ud800"}', b"[" * 100_000]
)
def test_a_body_that_is_no_such_object_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        merge_body(tool_registry_service_pb2.DeprecateToolRequest(), body)


def test_unset_fields_are_shown_except_those_whose_absence_means_something() -> None:
    shown = json.loads(to_json(cost_ledger_service_pb2.ReportSpendRequest()))
    assert shown["page_size"] == 0
    assert shown["group_by"] == []
    assert "start_time" not in shown


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "x"}


@pytest.mark.parametrize(
    "request_",
    [
        MessageRequest.model_validate(
            {
                "model": "podium",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": [THOUGHT]}],
            }
        ),
        ResponseRequest.model_validate(
            {"model": "podium", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}
        ),
    ],
)
def test_thoughts_alone_are_no_task(request_: MessageRequest | ResponseRequest) -> None:
    assert request_.results() is None
    with pytest.raises(InvalidChat, match="the task is empty"):
        request_.order(Choice("", ""))

from pathlib import Path
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsBase as BetaMessageCreateParamsBase,
)
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types import EmbeddingCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel

from gateway.chat.parameters import CHAT
from gateway.chat.request import ChatRequest
from gateway.embeddings.request import EMBEDDINGS, EmbeddingRequest
from gateway.errors import UnsupportedParameter
from gateway.messages.parameters import MESSAGES
from gateway.messages.request import MessageRequest
from gateway.parameters import ApiParameters, Treatment, ignored_header
from gateway.responses.parameters import RESPONSES
from gateway.responses.request import ResponseRequest

CLIENTS = Path(__file__).parents[3] / "docs" / "clients.md"
APIS = [
    (CHAT, ChatRequest),
    (RESPONSES, ResponseRequest),
    (MESSAGES, MessageRequest),
    (EMBEDDINGS, EmbeddingRequest),
]


@pytest.mark.parametrize(("parameters", "request_type"), APIS)
def test_the_documented_table_is_the_one_of_the_code(
    parameters: ApiParameters, request_type: type[BaseModel]
) -> None:
    table = parameters.table()
    assert table in CLIENTS.read_text(), f"docs/clients.md lacks this table:\n{table}"


@pytest.mark.parametrize(("parameters", "request_type"), APIS)
def test_what_is_honoured_is_what_the_request_reads(
    parameters: ApiParameters, request_type: type[BaseModel]
) -> None:
    assert sorted(parameters.names(Treatment.HONOURED)) == sorted(request_type.model_fields)
    every = [name for row in parameters.rows for name in row.names]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("parameters", [CHAT, RESPONSES, MESSAGES, EMBEDDINGS])
def test_what_is_ignored_passes_and_what_is_rejected_names_its_fix(
    parameters: ApiParameters,
) -> None:
    ignored = parameters.names(Treatment.IGNORED)
    assert parameters.check(dict.fromkeys(ignored, "anything")) == tuple(ignored)
    assert parameters.check({**dict.fromkeys(ignored, None), "temprature": 1}) == ("temprature",)
    for row in parameters.rows:
        if row.treatment is Treatment.REJECTED:
            for name in row.names:
                parameters.check(dict.fromkeys([name], None))
                for neutral in row.neutral:
                    parameters.check({name: neutral})
                with pytest.raises(UnsupportedParameter, match=name) as raised:
                    parameters.check({name: "anything"})
                assert row.words in raised.value.message


def fields_of(params: Any) -> set[str]:
    return {name for base in params.__mro__ for name in getattr(base, "__annotations__", {})}


@pytest.mark.parametrize(
    ("parameters", "params"),
    [
        (CHAT, CompletionCreateParamsBase),
        (RESPONSES, ResponseCreateParamsBase),
        (EMBEDDINGS, EmbeddingCreateParams),
        (MESSAGES, MessageCreateParamsBase),
        (MESSAGES, BetaMessageCreateParamsBase),
    ],
)
def test_every_parameter_of_the_clients_libraries_has_a_treatment(
    parameters: ApiParameters, params: Any
) -> None:
    """Public report 49's class: one that is new in a library is decided, and not just ignored."""
    known = {name for row in parameters.rows for name in row.names}
    assert not fields_of(params) - known


def test_the_header_holds_names_of_any_kind_and_number() -> None:
    assert ignored_header(()) == {}
    named = ignored_header(["a", "a", "b\r\nX: 1", "ä", "tools[0]:web_search", "x" * 99])
    assert named == {
        "x-podium-ignored": f"a, b%0D%0AX:%201, %C3%A4, tools[0]:web_search, {'x' * 60}"
    }
    assert ignored_header(f"n{at}" for at in range(99))["x-podium-ignored"].endswith("and 69 more")
    assert ignored_header(["\ud83d"]) == {"x-podium-ignored": "%3F"}
    # Clients read headers of a few kilobytes alone.
    assert len(str(ignored_header(f"{at}{'ä' * 99}" for at in range(99)))) < 2_000


def test_null_is_a_flag_that_is_not_given() -> None:
    unset = {"model": "podium", "stream": None}
    chat = ChatRequest.model_validate(
        {**unset, "messages": [{"role": "user", "content": "6*7?"}], "stream_options": {}}
    )
    response = ResponseRequest.model_validate({**unset, "input": "6*7?", "background": None})
    assert not (chat.stream or response.stream or response.background)

"""Requests whose conversation holds no task."""

import pytest

from gateway.chat.catalogue import Choice
from gateway.errors import InvalidChat
from gateway.messages.request import MessageRequest
from gateway.responses.request import ResponseRequest

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

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from podium_client import EpisodeUnanswered
from podium_client._sync.episodes import Episodes
from podium_client._sync.transport import Transport
from podium_client.functions import Function
from podium_client.values import Model
from podium_client.wire import ServerSentEvent

ENDED = "EPISODE_STATE_FINISHED"


class Recorded:
    def __init__(self, state: str, turn_count: int, stop_reason: str) -> None:
        self.answered: list[int] = []
        self._now = {"id": "e", "state": state, "turn_count": turn_count}
        self._end = {"id": "e", "state": ENDED, "stop_reason": stop_reason}

    def call(self, method: str, _path: str, reply: type[Model], body: Any = None) -> Model:
        if method == "POST":
            self.answered.append(body.turn)
        return reply.model_validate({"episode": self._now})

    def events(self, _path: str, _after: int, query: dict[str, Any]) -> Iterator[ServerSentEvent]:
        assert not query
        asked = {"calls": [{"index": 0, "tool_name": "stock", "arguments_json": "{}"}]}
        events: list[dict[str, Any]] = [
            *({"turn": turn, "client_calls_requested": asked} for turn in (1, 2, 3)),
            {"finished": {"episode": self._end}},
        ]
        for number, each in enumerate(events, start=1):
            yield ServerSentEvent("any", json.dumps({"sequence": str(number), **each}))


def test_calls_of_turns_that_were_answered_are_not_run_again() -> None:
    runs: list[str] = []

    def stock() -> str:
        runs.append("stock")
        return "40"

    platform = Recorded("EPISODE_STATE_WAITING", 2, "STOP_REASON_ANSWERED")
    Episodes(cast(Transport, platform)).wait("e", functions=[stock])
    assert platform.answered == [2, 3]
    assert len(runs) == 2


def test_nothing_is_run_for_an_episode_that_has_ended() -> None:
    def stock() -> str:
        raise AssertionError("the episode has ended")

    platform = Recorded(ENDED, 3, "STOP_REASON_DEADLINE")
    with pytest.raises(EpisodeUnanswered):
        Episodes(cast(Transport, platform)).wait("e", functions=[stock])
    assert not platform.answered


def by_place(article: str, /) -> str:
    return article


def several(*articles: str) -> str:
    return ", ".join(articles)


def others(**articles: str) -> str:
    return ", ".join(articles)


@pytest.mark.parametrize("function", [by_place, several, others])
def test_arguments_without_a_name_are_rejected_before_an_episode_begins(function: Any) -> None:
    with pytest.raises(TypeError, match="can only name arguments"):
        Function(function)

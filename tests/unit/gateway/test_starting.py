from typing import Any

import pytest
from starlette.requests import Request

from callers import make_identity
from gateway.chat.request import ChatRequest
from gateway.chat.runs import EpisodeRun
from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerTooLate
from gateway.models import EpisodeOrder
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.identity import acting_as
from unit.gateway.waiting_episodes import WaitingEpisodes, make_starter

CHAT: Any = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}], "n": 3}


class RoomForTwo(WaitingEpisodes):
    async def start(self, episode_id: str, order: EpisodeOrder) -> None:
        if len(self.started) == 2:
            raise ResourceExhausted("too many run")
        await super().start(episode_id, order)


async def rejected(episodes: WaitingEpisodes, cancel_on_disconnect: bool, key: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"idempotency-key", key.encode())] if key else []
    request = Request({"type": "http", "headers": headers}, receive)
    starter = make_starter(episodes, cancel_on_disconnect=cancel_on_disconnect)
    with acting_as(make_identity()), pytest.raises(ResourceExhausted):
        await starter.start(ChatRequest(**CHAT), request, 3)


@pytest.mark.parametrize("cancel_on_disconnect", [True, False])
async def test_a_rejected_choice_takes_back_those_before_it(cancel_on_disconnect: bool) -> None:
    episodes = RoomForTwo()
    await rejected(episodes, cancel_on_disconnect, key="")
    assert len(episodes.started) == 2
    assert episodes.cancelled == episodes.started


async def test_but_not_those_that_the_same_request_finds_again() -> None:
    episodes = RoomForTwo()
    await rejected(episodes, True, key="three")
    assert len(episodes.started) == 2
    assert not episodes.cancelled


async def test_an_episode_that_an_error_says_goes_on_is_not_cancelled() -> None:
    episodes = WaitingEpisodes()
    run = EpisodeRun(episodes, EpisodeId("episode", chosen_by_caller=False), wait_s=0)
    with pytest.raises(AnswerTooLate, match="episode continues"):
        await run.outcome()
    await run.leave("the client disconnected")
    assert not episodes.cancelled

from typing import Any

import pytest

from gateway.clients import EpisodesClient
from gateway.errors import EpisodeCancelled
from gateway.models import KeptRequest, Outcome, StopReason
from gateway.responses.ids import ResponseId
from gateway.responses.mcp_servers import RegisteredMcpTools
from gateway.responses.routes import ResponsesApi
from unit.gateway.test_outcomes import make_outcome

ID = str(ResponseId("01900000-0000-7000-8000-000000000000", 0))


class Stands(EpisodesClient):
    def __init__(self, outcome: Outcome | None) -> None:
        self.outcome = outcome
        self.cancelled = 0

    async def cancel(self, episode_id: str, reason: str) -> None:
        self.cancelled += 1

    async def outcome_now(self, episode_id: str, answered_turn: int) -> Outcome | None:
        return self.outcome

    async def kept(self, episode_id: str, label: str) -> KeptRequest:
        return KeptRequest()


def api(episodes: EpisodesClient) -> ResponsesApi:
    unused: Any = None
    return ResponsesApi(unused, episodes, RegisteredMcpTools(unused))


@pytest.mark.parametrize("outcome", [None, make_outcome(StopReason.CANCELLED)])
async def test_one_that_ran_is_cancelled(outcome: Outcome | None) -> None:
    episodes = Stands(outcome)
    assert (await api(episodes).cancel(ID))["status"] == "cancelled"
    assert episodes.cancelled == 1


async def test_one_that_had_ended_is_shown_as_it_is() -> None:
    responses = api(Stands(make_outcome(answer="42")))
    shown = await responses.cancel(ID)
    assert shown["status"] == "completed"
    assert shown["output"] == (await responses.find(ID))["output"]


async def test_a_cancelled_one_that_is_asked_for_has_no_answer() -> None:
    with pytest.raises(EpisodeCancelled):
        await api(Stands(make_outcome(StopReason.CANCELLED))).find(ID)

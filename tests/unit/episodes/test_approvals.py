from dataclasses import fields
from typing import Any

import pytest

from episodes.approvals.convert import place_from_token, token_of
from episodes.approvals.models import ApprovalPosition
from episodes.episodes.service import REASON_CHARACTERS_MAX, Episodes
from episodes.models import SEQUENCE_MAX
from podium_kit.rpc.bounds import OutOfBounds
from podium_kit.rpc.pages import InvalidPageToken

EPISODE_ID = "01900000-0000-7000-8000-000000000001"


async def test_a_reason_that_no_workflow_takes_is_rejected() -> None:
    nowhere: Any = None
    episodes = Episodes(*[nowhere] * len(fields(Episodes)))
    said = "x" * (REASON_CHARACTERS_MAX + 1)
    with pytest.raises(OutOfBounds, match="reason has 1001 characters; give at most 1000"):
        await episodes.approve(EPISODE_ID, 1, 0, approved=False, reason=said)


def test_a_page_begins_after_the_last_call_of_the_page_before() -> None:
    place = ApprovalPosition(EPISODE_ID, SEQUENCE_MAX, 1)
    assert place_from_token(token_of(place)) == place


@pytest.mark.parametrize(
    "place", [ApprovalPosition(EPISODE_ID, 2**31, 0), ApprovalPosition(EPISODE_ID, 1, 10**17)]
)
def test_a_page_token_with_a_turn_that_no_call_can_have_is_rejected(
    place: ApprovalPosition,
) -> None:
    with pytest.raises(InvalidPageToken):
        place_from_token(token_of(place))

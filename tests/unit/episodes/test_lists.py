import pytest

from episodes.episodes.convert import filter_from_proto
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.pages import InvalidPageToken, encode_page_token

EPISODE_ID = "01900000-0000-7000-8000-000000000001"


@pytest.mark.parametrize("before", ["42", "acme", ""])
def test_a_page_token_of_another_list_is_rejected(before: str) -> None:
    token = encode_page_token({"before": before})
    with pytest.raises(InvalidPageToken):
        filter_from_proto(pb.ListEpisodesRequest(page_token=token))


def test_a_page_begins_before_the_last_episode_of_the_page_before() -> None:
    token = encode_page_token({"before": EPISODE_ID})
    assert filter_from_proto(pb.ListEpisodesRequest(page_token=token)).before_id == EPISODE_ID
    assert not filter_from_proto(pb.ListEpisodesRequest()).before_id

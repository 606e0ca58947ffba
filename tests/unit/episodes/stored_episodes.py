from datetime import UTC, datetime

from episodes.models import EpisodeState, Membership, NewEpisode, Progress, StoredEpisode
from podium.registry.v1 import toolset_pb2

ID = "01900000-0000-7000-8000-00000000abcd"


def stored_episode(id: str = ID) -> StoredEpisode:
    new = NewEpisode(
        episode_id=id,
        tenant="acme",
        subject="ada",
        groups=frozenset(),
        spec=b"",
        toolset=toolset_pb2.Toolset().SerializeToString(),
        toolset_digest=b"digest",
        policy_name="balanced",
        policy_version=1,
        membership=Membership(id, 1, 0, ""),
        labels={},
        turn_limit=5,
        time_limit_s=60.0,
    )
    return StoredEpisode(new, datetime.now(UTC), EpisodeState.PENDING, Progress())

from collections.abc import Mapping

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from episodes.approvals.convert import approval_timeout_s
from episodes.models import NewEpisode
from episodes.workflows.payloads import EpisodeInput
from podium.episodes.v1 import episode_pb2

EPISODE = SearchAttributeKey.for_keyword("PodiumEpisode")
TENANT = SearchAttributeKey.for_keyword("PodiumTenant")
POLICY = SearchAttributeKey.for_keyword("PodiumPolicy")
MODEL = SearchAttributeKey.for_keyword("PodiumModel")
# Their types, as Temporal's command spells them.
SEARCH_ATTRIBUTES = {key.name: "Keyword" for key in (EPISODE, TENANT, POLICY, MODEL)}


def typed(values: Mapping[SearchAttributeKey[str], str]) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(*each) for each in values.items()])


def episode_input(new: NewEpisode) -> EpisodeInput:
    waits_s = approval_timeout_s(new.toolset)
    checked = episode_pb2.EpisodeSpec.FromString(new.spec).HasField("check")
    return EpisodeInput(new.episode_id, new.turn_limit, new.time_limit_s, waits_s, checked)


def search_attributes(new: NewEpisode) -> TypedSearchAttributes:
    model = episode_pb2.EpisodeSpec.FromString(new.spec).model
    return typed(
        {EPISODE: new.episode_id, TENANT: new.tenant, POLICY: new.policy_name, MODEL: model}
    )

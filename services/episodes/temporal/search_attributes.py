"""Search attributes by which Temporal's own tools find the workflow of an episode."""

from collections.abc import Mapping

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

EPISODE = SearchAttributeKey.for_keyword("PodiumEpisode")
TENANT = SearchAttributeKey.for_keyword("PodiumTenant")
POLICY = SearchAttributeKey.for_keyword("PodiumPolicy")
MODEL = SearchAttributeKey.for_keyword("PodiumModel")
# Their types, as Temporal's command spells them.
SEARCH_ATTRIBUTES = {key.name: "Keyword" for key in (EPISODE, TENANT, POLICY, MODEL)}


def typed(values: Mapping[SearchAttributeKey[str], str]) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(*each) for each in values.items()])

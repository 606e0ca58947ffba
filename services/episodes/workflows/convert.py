"""A stored episode, which the workflow knows nothing of, as the workflow's input."""

from temporalio.common import TypedSearchAttributes

from episodes.models import NewEpisode
from episodes.temporal.search_attributes import EPISODE, MODEL, POLICY, TENANT, typed
from episodes.workflows.payloads import EpisodeInput
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.wire import duration_from_proto

APPROVAL_TIMEOUT_S = 3600.0


def episode_input(new: NewEpisode) -> EpisodeInput:
    """The workflow's input for an admitted episode."""
    waits_s = approval_timeout_s(new.toolset)
    checked = episode_pb2.EpisodeSpec.FromString(new.spec).HasField("check")
    return EpisodeInput(new.episode_id, new.turn_limit, new.time_limit_s, waits_s, checked)


def search_attributes(new: NewEpisode) -> TypedSearchAttributes:
    """The attributes of an episode's workflow. The model is "" where the default answers."""
    model = episode_pb2.EpisodeSpec.FromString(new.spec).model
    return typed(
        {EPISODE: new.episode_id, TENANT: new.tenant, POLICY: new.policy_name, MODEL: model}
    )


def approval_timeout_s(toolset: bytes) -> float:
    """Seconds a call of an episode with the serialized toolset waits before it is denied."""
    timeout = toolset_pb2.Toolset.FromString(toolset).approval_timeout
    return duration_from_proto(timeout) or APPROVAL_TIMEOUT_S


def self_approval(toolset: bytes) -> bool:
    """Whether whoever started an episode with the serialized toolset may approve its calls."""
    return toolset_pb2.Toolset.FromString(toolset).self_approval

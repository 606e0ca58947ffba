"""Who reads the content of episodes and direct calls, and what is left of an episode without it.

Content is what people, models and tools wrote: tasks, messages, files, schemas, arguments,
results, answers, failures and feedback. All else is metadata, which the whole tenant reads.
"""

from google.protobuf.message import Message

from episodes.models import StoredEpisode
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium_kit.rpc.identity import Identity, Scope, ScopeMissing, current_identity

# Whatever is not named here is withheld, fields of later versions included.
EPISODE_METADATA = frozenset(
    {
        "id",
        "spec",
        "state",
        "stop_reason",
        "failure",
        "turn_count",
        "tool_call_count",
        "cost",
        "unpriced_call_count",
        "usage",
        "policy_name",
        "policy_version",
        "toolset_digest",
        "create_time",
        "end_time",
        "children_cost",
        "children_unpriced_call_count",
        "all_tool_calls_failed",
    }
)
SPEC_METADATA = frozenset(
    {
        "model",
        "policy",
        "tool_names",
        "turn_limit",
        "time_limit",
        "budget",
        "prompt_mode",
        "sampling",
        "group",
        "labels",
        "parent",
        "price_factors",
        "output_token_limit",
    }
)


def may_read(subject: str, reader: Identity, *, awaits_approval: bool = False) -> bool:
    """Whether the reader may read what the subject started, in the tenant of both."""
    if subject == reader.subject or reader.may(Scope.TRAJECTORIES_READ):
        return True
    return awaits_approval and reader.may(Scope.CALLS_APPROVE)


def may_read_episode(stored: StoredEpisode) -> bool:
    """Whether the caller may read it, as it was when it was read from the database."""
    subject, awaits_approval = stored.new.subject, stored.awaits_approval
    return may_read(subject, current_identity(), awaits_approval=awaits_approval)


def require_readable(stored: StoredEpisode) -> None:
    """Raises ScopeMissing unless the caller may read the episode."""
    if not may_read_episode(stored):
        raise ScopeMissing(current_identity(), [Scope.TRAJECTORIES_READ])


def withhold_content(episode: episode_pb2.Episode) -> None:
    """Leaves its metadata."""
    _keep(episode, EPISODE_METADATA)
    _keep(episode.spec, SPEC_METADATA)
    if episode.HasField("failure"):
        episode.failure.CopyFrom(failure_pb2.Failure(kind=episode.failure.kind))
    episode.content_withheld = True


def _keep(message: Message, names: frozenset[str]) -> None:
    for field, _ in message.ListFields():
        if field.name not in names:
            message.ClearField(field.name)

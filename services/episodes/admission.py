"""Turns a request into an episode, or says what is wrong with it."""

import json
import uuid

from jsonschema import Draft202012Validator, SchemaError

from episodes.attachments.checks import checked_attachments, require_readers
from episodes.checks import verifier_of
from episodes.errors import InvalidEpisode
from episodes.models import Membership, NewEpisode
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.metering import PriceFactors
from podium_kit.rpc.identity import Identity
from podium_kit.verifiers import InvalidVerifier
from podium_kit.wire import digest_of, duration_from_proto, money_from_proto

DEFAULT_TURN_LIMIT = 50
TURN_LIMIT_MAX = 300
DEFAULT_TIME_LIMIT_S = 1800.0
TIME_LIMIT_MAX_S = 24 * 3600.0
TASK_BYTES_MAX = 256 * 1024
CHECK_BYTES_MAX = 64 * 1024
# History, tool names and all else; every list of episodes carries it.
SPEC_BYTES_MAX = 1024 * 1024
HISTORY_MESSAGES_MAX = 1_000
ANSWER_SCHEMA_BYTES_MAX = 64 * 1024
LABELS_MAX = 16
LABEL_CHARACTERS_MAX = 256
GROUP_SIZE_MAX = 1024


def check_request(episode_id: str, spec: episode_pb2.EpisodeSpec, running_limit: int) -> None:
    """Checks what needs no other service. Raises InvalidEpisode, InvalidMoney,
    InvalidPriceFactors.
    """
    _check_id(episode_id)
    if running_limit < 0:
        raise InvalidEpisode(f"running_limit is {running_limit}; give 1 or more, or 0 for none")
    check_spec(spec)


def check_spec(spec: episode_pb2.EpisodeSpec) -> None:
    """What is to be done. Raises as `check_request`."""
    if not spec.task.strip():
        raise InvalidEpisode("the task is empty; say in words what to do")
    if len(spec.task.encode()) > TASK_BYTES_MAX:
        raise InvalidEpisode(f"the task is longer than {TASK_BYTES_MAX // 1024} KiB")
    if len(spec.history) > HISTORY_MESSAGES_MAX:
        raise InvalidEpisode(
            f"history holds {len(spec.history)} messages; keep the last {HISTORY_MESSAGES_MAX}"
        )
    if spec.ByteSize() > SPEC_BYTES_MAX:
        raise InvalidEpisode(
            f"the episode's description is longer than {SPEC_BYTES_MAX // 1024} KiB;"
            " shorten its history"
        )
    if not 0 <= spec.turn_limit <= TURN_LIMIT_MAX:
        raise InvalidEpisode(f"turn_limit is {spec.turn_limit}; give 1 to {TURN_LIMIT_MAX}")
    if spec.output_token_limit < 0:
        raise InvalidEpisode(
            f"output_token_limit is {spec.output_token_limit}; give 1 or more, or 0 for none"
        )
    if not 0 <= time_limit_s(spec) <= TIME_LIMIT_MAX_S:
        raise InvalidEpisode("time_limit must be above zero and at most 24 hours")
    if spec.HasField("budget") and money_from_proto(spec.budget).amount <= 0:
        raise InvalidEpisode("the budget must be above zero; leave it out for no limit")
    if spec.HasField("parent"):
        raise InvalidEpisode("parent is set by Podium where a tool starts an episode: leave it out")
    _check_answer_schema(spec.answer_json_schema)
    _check_labels(dict(spec.labels))
    _check_group(spec.group)
    _check_verifier(spec)
    PriceFactors.read(spec.price_factors)


def admit(
    episode_id: str,
    spec: episode_pb2.EpisodeSpec,
    toolset: toolset_pb2.Toolset,
    identity: Identity,
) -> NewEpisode:
    """Raises InvalidEpisode for a first tool that is not offered, UnsupportedAttachment for a file
    that nobody reads."""
    require_readers(checked_attachments(spec.attachments), toolset.tools)
    names = {tool.name for tool in toolset.tools}
    if unknown := [name for name in spec.first_tool_names if name not in names]:
        raise InvalidEpisode(
            f"first_tool_names has {unknown[0]}, which the episode is not offered; name a tool of"
            " tool_names or client_tools"
        )
    frozen = toolset_pb2.Toolset()
    frozen.CopyFrom(toolset)
    frozen.digest = digest_of(toolset)
    return NewEpisode(
        episode_id=episode_id,
        tenant=identity.tenant,
        subject=identity.subject,
        groups=identity.groups,
        spec=spec.SerializeToString(deterministic=True),
        toolset=frozen.SerializeToString(deterministic=True),
        toolset_digest=bytes.fromhex(frozen.digest),
        policy_name=toolset.policy_name,
        policy_version=toolset.policy_version,
        membership=Membership(
            group_id=spec.group.id or episode_id,
            size=spec.group.size or 1,
            sample_index=spec.group.sample_index,
            task_id=spec.group.task_id,
        ),
        labels=dict(spec.labels),
        turn_limit=spec.turn_limit or DEFAULT_TURN_LIMIT,
        time_limit_s=time_limit_s(spec),
    )


def time_limit_s(spec: episode_pb2.EpisodeSpec) -> float:
    """The longest the episode may take, in seconds."""
    if not spec.HasField("time_limit"):
        return DEFAULT_TIME_LIMIT_S
    return duration_from_proto(spec.time_limit) or -1.0


def _check_id(episode_id: str) -> None:
    try:
        parsed = uuid.UUID(episode_id)
    except ValueError as error:
        raise InvalidEpisode(f"episode_id {episode_id!r} is not a UUID") from error
    # Newest-first listing and paging order by id, which only a time-ordered id allows.
    if parsed.version != 7 or str(parsed) != episode_id:
        raise InvalidEpisode(f"episode_id {episode_id!r} is not a lower-case UUIDv7 (RFC 9562)")


def _check_answer_schema(text: str) -> None:
    if not text:
        return
    if len(text.encode()) > ANSWER_SCHEMA_BYTES_MAX:
        raise InvalidEpisode(f"answer_json_schema is over {ANSWER_SCHEMA_BYTES_MAX // 1024} KiB")
    try:
        schema = json.loads(text)
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise InvalidEpisode(f"answer_json_schema: {error.message[:300]}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidEpisode(f"answer_json_schema is not JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise InvalidEpisode('answer_json_schema: the root must have "type": "object"')


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise InvalidEpisode(f"{len(labels)} labels are more than {LABELS_MAX}")
    for key, value in labels.items():
        if not key or max(len(key), len(value)) > LABEL_CHARACTERS_MAX:
            raise InvalidEpisode(f"label {key[:40]!r} is empty or over {LABEL_CHARACTERS_MAX} long")


def _check_group(group: episode_pb2.Group) -> None:
    size = group.size or 1
    if not 1 <= size <= GROUP_SIZE_MAX:
        raise InvalidEpisode(f"group.size is {group.size}; give 1 to {GROUP_SIZE_MAX}")
    if size > 1 and not group.id:
        raise InvalidEpisode("a group of several needs group.id")
    if not 0 <= group.sample_index < size:
        raise InvalidEpisode(f"group.sample_index {group.sample_index} is not below {size}")


def _check_verifier(spec: episode_pb2.EpisodeSpec) -> None:
    if len(spec.check.parameters_json.encode()) > CHECK_BYTES_MAX:
        raise InvalidEpisode(f"check.parameters_json is over {CHECK_BYTES_MAX // 1024} KiB")
    try:
        if spec.HasField("check"):
            verifier_of(spec.check)
    except InvalidVerifier as error:
        raise InvalidEpisode(f"check: {error}") from error

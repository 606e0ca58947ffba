from collections.abc import Sequence
from dataclasses import dataclass, field

from episodes.attachments.checks import checked_attachments, require_readers
from episodes.clients import FittingRequest, RegistryClient
from episodes.competence.convert import add_records
from episodes.competence.service import CompetenceRecords
from episodes.errors import InvalidEpisode
from episodes.execution.registry_answers import RegistryAnswers
from episodes.execution.verify import verifier_of
from episodes.models import EXCERPT_CHARACTERS, EpisodeExcerpt, Membership, NewEpisode
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.json_schemas.checks import checked_object
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, grammar_characters
from podium_kit.json_schemas.inlining import SchemaError
from podium_kit.metering import PriceFactors
from podium_kit.rpc.identity import Identity, current_identity
from podium_kit.text import storable
from podium_kit.verifiers import InvalidVerifier
from podium_kit.wire import digest_of, duration_from_proto, money_from_proto
from podium_kit.wire.values import attachment_from_proto

DEFAULT_TURN_LIMIT = 50
DEFAULT_TIME_LIMIT_S = 1800.0
# History, tool names and all else; every list of episodes carries it.
SPEC_BYTES_MAX = 1024 * 1024
# Checked in a few milliseconds.
CHECKED_AT_ONCE_BYTES_MAX = 64 * 1024


def takes_long_to_check(
    spec: episode_pb2.EpisodeSpec, toolset: toolset_pb2.Toolset | None = None
) -> bool:
    """Returns True for schemas or a check of the caller's, and for much text."""
    own = spec.answer_json_schema or spec.client_tools or spec.HasField("check")
    size_bytes = spec.ByteSize() + (toolset.ByteSize() if toolset is not None else 0)
    return bool(own) or size_bytes > CHECKED_AT_ONCE_BYTES_MAX


def check_request(episode_id: str, spec: episode_pb2.EpisodeSpec) -> None:
    """Checks a request without asking other services, beyond the bounds of the contract.

    Raises InvalidEpisode, InvalidMoney, InvalidPriceFactors.
    """
    if not episode_id:
        raise InvalidEpisode("episode_id is unset; make a UUIDv7")
    check_spec(spec)


def check_spec(spec: episode_pb2.EpisodeSpec) -> None:
    if not spec.task.strip():
        raise InvalidEpisode("the task is empty; say in words what to do")
    if spec.ByteSize() > SPEC_BYTES_MAX:
        raise InvalidEpisode(
            f"the episode's description is longer than {SPEC_BYTES_MAX // 1024} KiB;"
            " shorten its history"
        )
    if time_limit_s(spec) <= 0:
        raise InvalidEpisode("time_limit must be above zero; leave it out for the default")
    if spec.HasField("budget") and money_from_proto(spec.budget).amount <= 0:
        raise InvalidEpisode("the budget must be above zero; leave it out for no limit")
    if spec.HasField("parent"):
        raise InvalidEpisode("parent is set by Podium where a tool starts an episode: leave it out")
    if any(message.role == "tool" for message in spec.history):
        raise InvalidEpisode("history has a tool's result; an orchestrator reads it as the user's")
    _check_answer_schema(spec.answer_json_schema)
    _check_group(spec.group)
    _check_verifier(spec)
    PriceFactors.read(spec.price_factors)


def admit(
    episode_id: str,
    spec: episode_pb2.EpisodeSpec,
    toolset: toolset_pb2.Toolset,
    identity: Identity,
    assigned: bytes = b"",
) -> NewEpisode:
    """Freezes the episode with its toolset and what a live evaluation assigned to it.

    Raises InvalidEpisode for a first tool that is not offered, UnsupportedAttachment for a file
    that no model reads.
    """
    require_readers(checked_attachments(spec.attachments), toolset.tools)
    _check_grammars(spec, toolset)
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
        excerpt=EpisodeExcerpt(
            storable(spec.task[:EXCERPT_CHARACTERS]),
            spec.model,
            spec.parent.episode_id or None,
        ),
        assigned=assigned,
    )


def time_limit_s(spec: episode_pb2.EpisodeSpec) -> float:
    if not spec.HasField("time_limit"):
        return DEFAULT_TIME_LIMIT_S
    return duration_from_proto(spec.time_limit)


def _check_answer_schema(text: str) -> None:
    if not text:
        return
    try:
        checked_object(text)
    except UnusableSchema as error:
        raise InvalidEpisode(f"answer_json_schema {error}") from error


def _check_grammars(spec: episode_pb2.EpisodeSpec, toolset: toolset_pb2.Toolset) -> None:
    """Bounds the schemas together, because a model samples under all of them at once."""
    schemas = [*(tool.parameters_json_schema for tool in toolset.tools), spec.answer_json_schema]
    try:
        characters = sum(grammar_characters(schema) for schema in schemas if schema)
    except SchemaError as error:
        raise InvalidEpisode(f"the schema of a tool: {error}") from error
    if characters > ACTION_CHARACTERS_MAX:
        raise InvalidEpisode(
            f"tool_names: the schemas of its {len(toolset.tools)} tools, written out, have"
            f" {characters} characters, and at most {ACTION_CHARACTERS_MAX} are offered at once;"
            " name fewer tools"
        )


def _check_group(group: episode_pb2.Group) -> None:
    size = group.size or 1
    if size > 1 and not group.id:
        raise InvalidEpisode("a group of several needs group.id")
    if group.sample_index >= size:
        raise InvalidEpisode(f"group.sample_index {group.sample_index} is not below {size}")


def _check_verifier(spec: episode_pb2.EpisodeSpec) -> None:
    try:
        if spec.HasField("check"):
            verifier_of(spec.check)
    except InvalidVerifier as error:
        raise InvalidEpisode(f"check: {error}") from error


# "And in Lyon?" is understood from the earlier messages.
MESSAGES_BEFORE = 2
TOOLSETS_MAX = 500
# Of a toolset that is kept; all of them take 32 MiB at most.
TOOLSET_BYTES_MAX = 64 * 1024
# The caller, the name of the policy, and those of the tools.
Asked = tuple[Identity, str, tuple[str, ...]]


@dataclass(frozen=True)
class ToolOffers:
    """Offers the tools that an episode names, or else those that fit its task best, with their
    competence in such tasks."""

    registry: RegistryClient
    competence: CompetenceRecords
    tools_max: int
    known: RegistryAnswers[Asked, toolset_pb2.Toolset] = field(
        default_factory=lambda: RegistryAnswers(TOOLSETS_MAX)
    )
    """Toolsets that are the same for every task."""

    async def of(self, spec: episode_pb2.EpisodeSpec) -> toolset_pb2.Toolset:
        own = {tool.name for tool in spec.client_tools}
        registered = [name for name in spec.tool_names if name not in own]
        toolset = toolset_pb2.Toolset()
        toolset.CopyFrom(await self._resolved(spec, registered))
        if spec.tool_names and not registered:
            alone = [tool for tool in toolset.tools if tool.name in own]
            del toolset.tools[:]
            toolset.tools.extend(alone)
        if embedder := next((tool.name for tool in toolset.tools if tool.embeds), None):
            raise InvalidEpisode(
                f"{embedder} turns texts into vectors, which is nothing for an episode;"
                " leave it out, and call it with POST /v1/embeddings"
            )
        same = {spec.group.id, spec.replay_of}
        add_records(toolset, await self.competence.of(spec.task, same))
        return toolset

    async def _resolved(
        self, spec: episode_pb2.EpisodeSpec, registered: Sequence[str]
    ) -> toolset_pb2.Toolset:
        """Returns a toolset that other episodes may have, too."""
        asked = (current_identity(), spec.policy, tuple(registered))
        is_common = not spec.client_tools and not spec.price_factors
        if is_common and (known := self.known.get(asked)) is not None:
            return known
        changes, fitting = self.known.changes, self._fitting(spec)
        found = await self.registry.resolve(
            spec.policy, registered, fitting, spec.price_factors, spec.client_tools
        )
        # With fewer tools than there are places none was left out for another task.
        is_common &= fitting is None or len(found.tools) < self.tools_max
        if is_common and found.ByteSize() <= TOOLSET_BYTES_MAX:
            self.known.keep(asked, found, changes)
        return found

    def _fitting(self, spec: episode_pb2.EpisodeSpec) -> FittingRequest | None:
        if not self.tools_max or spec.tool_names:
            return None
        before = [message.content for message in spec.history[-MESSAGES_BEFORE:]]
        attached = {attachment_from_proto(each).kind for each in spec.attachments}
        task = "\n".join([*before, spec.task])
        return FittingRequest(task, self.tools_max, attached=sorted(attached))

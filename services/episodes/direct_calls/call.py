import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from episodes.keys import StepKind, effect_key
from episodes.models import PolicyDecision
from episodes.spending.worst_case import timeout_s
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.registry.v1 import policy_pb2, toolset_pb2
from podium_kit.attachments import Attachment
from podium_kit.money import Money
from podium_kit.tool_kinds import kind_of
from podium_kit.wire.values import attachment_from_proto


@dataclass(frozen=True)
class StoredCall:
    """A call as the database stores it.

    The groups are the subject's, see Identity. The toolset holds its one tool; the answer is the
    adapters' serialized response, None before. A cost of None is unknown once the call has ended.
    """

    id: str
    tenant: str
    subject: str
    spec: bytes
    toolset: bytes
    create_time: datetime
    answer: bytes | None = None
    cost: Money | None = None
    ended: bool = False
    groups: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The key of its hold, its capture and its request to the adapters; turns begin at 1."""
        return effect_key(self.id, 0, StepKind.TOOL)

    @property
    def budget_id(self) -> str:
        return f"direct-call/{self.id}"


@dataclass(frozen=True)
class DirectCall:
    stored: StoredCall
    spec: pb.DirectCallSpec
    toolset: toolset_pb2.Toolset

    @classmethod
    def of(cls, stored: StoredCall) -> "DirectCall":
        return cls(
            stored,
            pb.DirectCallSpec.FromString(stored.spec),
            toolset_pb2.Toolset.FromString(stored.toolset),
        )

    def decided(self, decision: PolicyDecision) -> "DirectCall":
        """Returns the call with the policy's guardrails and cache for it."""
        toolset = toolset_pb2.Toolset()
        toolset.CopyFrom(self.toolset)
        del toolset.guardrails[:]
        toolset.guardrails.extend(map(policy_pb2.Guardrail.FromString, decision.guardrails))
        if decision.cache is not None:
            toolset.cache.MergeFromString(decision.cache)
        serialized = toolset.SerializeToString(deterministic=True)
        return replace(self, stored=replace(self.stored, toolset=serialized), toolset=toolset)

    @property
    def tool(self) -> toolset_pb2.ResolvedTool:
        return self.toolset.tools[0]

    @property
    def asks_model(self) -> bool:
        return kind_of(self.tool.kind).has_models

    @property
    def embeds(self) -> bool:
        return self.tool.embeds

    @property
    def arguments(self) -> dict[str, Any]:
        return arguments_of(self.spec)

    @property
    def alias(self) -> str:
        return alias_of(self.spec, self.tool)

    @property
    def guardrails(self) -> Sequence[policy_pb2.Guardrail]:
        return self.toolset.guardrails

    @property
    def output_tokens(self) -> int:
        """The longest answer; 0 for a tool that is no model."""
        maximum = self.tool.max_output_tokens
        return min(self.spec.sampling.max_tokens or maximum, maximum)

    @property
    def attachments(self) -> list[Attachment]:
        return list(map(attachment_from_proto, self.spec.attachments))

    @property
    def timeout_s(self) -> float:
        return timeout_s(self.tool)


def arguments_of(spec: pb.DirectCallSpec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(spec.arguments_json or "{}")
    return found


def alias_of(spec: pb.DirectCallSpec, tool: toolset_pb2.ResolvedTool) -> str:
    """Returns the model to ask; "" for a tool that is none, and where none is named."""
    if not kind_of(tool.kind).has_models:
        return ""
    named = [name for name in (spec.model_alias, arguments_of(spec).get("model")) if name]
    if not named and len(tool.model_aliases) == 1:
        return tool.model_aliases[0]
    agree = bool(named) and named[0] == named[-1] and isinstance(named[0], str)
    return named[0] if agree else ""

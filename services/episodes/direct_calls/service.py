import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cachetools import LRUCache

from episodes.admission.access import check_labels, may_read
from episodes.admission.checks import SPEC_BYTES_MAX
from episodes.attachments.checks import (
    AS_ALL_OTHERS,
    OwnQuota,
    checked_attachments,
    checked_contents,
    require_read_by,
)
from episodes.attachments.store import Files
from episodes.clients import Ledger, RegistryClient
from episodes.direct_calls.call import DirectCall, StoredCall, alias_of
from episodes.direct_calls.executor import CallNews
from episodes.direct_calls.store import DirectCallStore
from episodes.errors import (
    ApprovalRequired,
    DirectCallConflict,
    DirectCallNotFound,
    InvalidDirectCall,
    ToolDenied,
)
from episodes.execution.composites import is_composite
from episodes.execution.policy_checks import PolicyChecks
from episodes.execution.registry_answers import RegistryAnswers
from episodes.models import PolicyDecision
from episodes.queue.lease_worker import LEASE_S, LeaseWorker
from episodes.queue.store import LeasedRow
from episodes.step_log.wakeups import Wakeups
from podium.adapters.v1.tool_adapter_service_pb2 import AnswerPart
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError, FailedPrecondition
from podium_kit.rpc.identity import Identity, Scope, ScopeMissing, current_identity
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import money_from_proto

WAIT_S = 30.0
# A notification that is lost costs no more than this.
POLL_INTERVAL_S = 5.0
TEXTS_MAX = 2_048
TOOLSETS_MAX = 5_000
# The caller, the name of the policy, and that of the tool.
Asked = tuple[Identity, str, str]
# The registry's reason for a tool that the policy does not let in.
TOOL_REJECTED = "TOOL_REJECTED"


@dataclass(frozen=True)
class DirectCallOrder:
    """`running_limit` is the most the tenant may have in flight, 0 for no limit."""

    call_id: str
    spec: pb.DirectCallSpec
    attachment_data: Sequence[bytes] = ()
    own_quota: OwnQuota = AS_ALL_OTHERS
    running_limit: int = 0


@dataclass(frozen=True)
class OwnCalls:
    """Calls that this process makes itself, as their holder in the queue."""

    worker: LeaseWorker[StoredCall]
    holder: str
    followed: dict[str, CallNews]

    @property
    def has_room(self) -> bool:
        return self.worker.has_room

    def start(self, call: StoredCall, *, with_parts: bool) -> None:
        """Makes a call that this process has just stored as its holder."""
        self.followed[call.id] = CallNews(with_parts=with_parts)
        since = asyncio.get_running_loop().time()
        self.worker.start(LeasedRow(call.id, call.tenant, call, 1, since, asyncio.Event()))

    def news_of(self, call: StoredCall) -> CallNews | None:
        """Returns the news of a call that this process makes, to the first who asks for them."""
        news = self.followed.get(call.id)
        return news.taken() if news is not None else None


class DirectTools:
    """Toolsets of one tool, some of them resolved before: a caller's calls are alike."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self.known: RegistryAnswers[Asked, toolset_pb2.Toolset] = RegistryAnswers(TOOLSETS_MAX)
        self._earlier: LRUCache[Asked, toolset_pb2.ResolvedTool] = LRUCache(TOOLSETS_MAX)

    async def of(self, policy: str, name: str) -> toolset_pb2.Toolset:
        """Raises ToolDenied where the policy does not let the tool in."""
        asked = (current_identity(), policy, name)
        found = self.known.get(asked)
        if found is None:
            changes = self.known.changes
            found = await self._resolved(policy, name)
            self.known.keep(asked, found, changes)
            tool = found.tools[0]
            self._earlier[asked] = toolset_pb2.ResolvedTool(
                name=tool.name,
                version=tool.version,
                kind=tool.kind,
                model_aliases=tool.model_aliases,
            )
        return found

    def outdated(self, policy: str, name: str) -> toolset_pb2.ResolvedTool | None:
        """Returns which tool was resolved before, where it has to be resolved again."""
        asked = (current_identity(), policy, name)
        return None if asked in self.known else self._earlier.get(asked)

    async def _resolved(self, policy: str, name: str) -> toolset_pb2.Toolset:
        try:
            return await self._registry.resolve(policy, [name], for_direct_calls=True)
        except FailedPrecondition as error:
            if error.reason != TOOL_REJECTED:
                raise
            raise ToolDenied(name, error.message) from error


@dataclass(frozen=True)
class DirectCalls:
    store: DirectCallStore
    wakeups: Wakeups
    tools: DirectTools
    policies: PolicyChecks
    ledger: Ledger
    own: OwnCalls

    async def make(
        self, order: DirectCallOrder, *, ends_with_caller: bool, with_parts: bool
    ) -> AsyncGenerator[StoredCall | AnswerPart]:
        """Yields the call as it was accepted, parts of its answer, and the ended call."""
        stored = await self.start(order, own=True, with_parts=with_parts)
        news = self.own.news_of(stored)
        try:
            yield stored
            if news is not None:
                async for part in news.parts():
                    yield part
                stored = news.call or stored
            while not stored.ended:
                stored = await self.wait(stored.id)
            yield stored
        finally:
            # A server that ends leaves its calls to others.
            if news is not None and ends_with_caller and not self.own.worker.drains:
                news.left.set()

    async def start(
        self, order: DirectCallOrder, *, own: bool = False, with_parts: bool = False
    ) -> StoredCall:
        """Starts a call, or returns the one that the same request started before.

        `own`: this process makes it, where it has room.
        """
        call_id, spec = order.call_id, order.spec
        _check(spec)
        check_labels(spec.labels, current_identity())
        if not _is_id(call_id):
            raise DirectCallNotFound(call_id[:100])
        attachments = checked_attachments(spec.attachments)
        contents = checked_contents(attachments, order.attachment_data)
        files = Files(tuple(attachments), contents, order.own_quota)
        with telemetry.episode_context(call_id):
            try:
                stored = await self._admitted(order, files, own, with_parts)
            except DomainError:
                # A call that was accepted before is answered, whatever its caller may do by now.
                found = await self.store.find(call_id)
                if found is None:
                    raise
                stored = _readable(found)
            if stored.spec != spec.SerializeToString(deterministic=True):
                raise DirectCallConflict(call_id)
            return stored

    async def get(self, call_id: str) -> StoredCall:
        if not _is_id(call_id):
            raise DirectCallNotFound(call_id[:100])
        return _readable(await self.store.load(call_id))

    async def wait(self, call_id: str) -> StoredCall:
        """Returns the call once it has ended, or its state after half a minute."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_S
        with self.wakeups.of(call_id) as news:
            while True:
                news.clear()
                stored = await self.get(call_id)
                remaining_s = deadline - loop.time()
                if stored.ended or remaining_s <= 0:
                    return stored
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(remaining_s, POLL_INTERVAL_S)):
                        await news.wait()

    async def _admitted(
        self, order: DirectCallOrder, files: Files, own: bool, with_parts: bool
    ) -> StoredCall:
        spec, identity = order.spec, current_identity()
        toolset = await self._toolset(spec)
        _check_content(spec, toolset.tools[0])
        new = StoredCall(
            id=order.call_id,
            tenant=identity.tenant,
            subject=identity.subject,
            groups=identity.groups,
            spec=spec.SerializeToString(deterministic=True),
            toolset=toolset.SerializeToString(deterministic=True),
            create_time=datetime.now(UTC),
        )
        call = DirectCall.of(new)
        _require_model(call)
        call = call.decided(await self._require_allowed(call))
        new = call.stored
        require_read_by(call.tool, call.alias, files.attachments)
        if files.attachments:
            await self.store.require_room(identity.tenant, files)
        limit = order.running_limit
        if spec.HasField("budget"):
            # A call that is rejected leaves no budget in the ledger.
            await self.store.require_place(identity.tenant, limit)
            await self.ledger.create_budget(_budget(call))
        if not (own and self.own.has_room):
            return _readable(await self.store.insert(new, files, running_limit=limit))
        stored = await self.store.insert(new, files, self.own.holder, LEASE_S, limit)
        if stored is new:
            self.own.start(new, with_parts=with_parts)
        return _readable(stored)

    async def _toolset(self, spec: pb.DirectCallSpec) -> toolset_pb2.Toolset:
        """Resolves the tool, and has the policy decide meanwhile, since the tool is most likely as
        it was before."""
        tool = self.tools.outdated(spec.policy, spec.tool_name)
        if tool is None:
            return await self.tools.of(spec.policy, spec.tool_name)
        question = (tool.name, tool.version, alias_of(spec, tool))
        deciding = self.policies.decide(current_identity(), spec.policy, {question})
        resolving = self.tools.of(spec.policy, spec.tool_name)
        toolset, _ = await asyncio.gather(resolving, deciding)
        return toolset

    async def _require_allowed(self, call: DirectCall) -> PolicyDecision:
        question = (call.tool.name, call.tool.version, call.alias)
        decided = await self.policies.decide(current_identity(), call.spec.policy, {question})
        decision = decided[question]
        if not decision.allowed:
            raise ToolDenied(call.tool.name, decision.reason)
        if call.tool.needs_approval or decision.needs_approval:
            raise ApprovalRequired(call.tool.name)
        return decision


def _readable(stored: StoredCall) -> StoredCall:
    caller = current_identity()
    if stored.tenant != caller.tenant:
        raise DirectCallNotFound(stored.id)
    if not may_read(stored.subject, caller):
        raise ScopeMissing(caller, [Scope.TRAJECTORIES_READ])
    return stored


def _require_model(call: DirectCall) -> None:
    if call.asks_model and not call.alias:
        name, aliases = call.tool.name, ", ".join(call.tool.model_aliases)
        raise InvalidDirectCall(
            f"{name} has the models {aliases}; name one, as tool/{name}/ALIAS or by the argument"
            " model"
        )


def _check_content(spec: pb.DirectCallSpec, tool: toolset_pb2.ResolvedTool) -> None:
    if tool.kind == tool_pb2.TOOL_KIND_PODIUM:
        raise InvalidDirectCall(f"{tool.name} runs an episode of its own; start one instead")
    arguments = _arguments(spec)
    if tool.embeds:
        if spec.messages:
            raise InvalidDirectCall(
                f"{tool.name} turns texts into vectors and answers no messages; use"
                " POST /v1/embeddings, or arguments_json with input"
            )
        check_texts(arguments)
        return
    if not kind_of(tool.kind).has_models:
        if spec.messages or spec.HasField("options"):
            raise InvalidDirectCall(f"{tool.name} is no language model; give arguments_json")
        return
    _check_options(spec)
    if not spec.arguments_json:
        last = spec.messages[-1] if spec.messages else None
        if last is None or not (last.content.strip() or last.call_id):
            raise InvalidDirectCall("the last message is empty; say in words what to do")
        return
    if spec.messages:
        raise InvalidDirectCall("there are messages and arguments_json; give one of them")
    if is_composite(tool):
        raise InvalidDirectCall(
            f"{tool.name} runs what its model writes, so only an episode can call it; start one, or"
            " send messages to its model alone"
        )
    if "input" in arguments:
        raise InvalidDirectCall(
            f"{tool.name} writes text and makes no vectors; name a tool of the role embedder"
        )
    if unknown := sorted(arguments.keys() - {"prompt", "model"}):
        raise InvalidDirectCall(f"a model takes prompt and model, and no {unknown[0][:40]!r}")
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise InvalidDirectCall("the argument prompt is empty; say in words what to do")


def _check_options(spec: pb.DirectCallSpec) -> None:
    options = spec.options
    if spec.HasField("options") and not spec.messages:
        raise InvalidDirectCall("options say how to answer messages; send messages")
    named = {tool.name for tool in options.functions}
    if options.function_name and options.function_name not in named:
        raise InvalidDirectCall(f"{options.function_name[:64]} is not among the functions")
    for tool in options.functions:
        _object(tool.parameters_json_schema, f"the schema of {tool.name}")
    _object(options.answer_json_schema, "the schema of the answer")


def check_texts(arguments: dict[str, Any]) -> None:
    """Raises InvalidDirectCall for arguments that no embedder accepts."""
    if unknown := sorted(arguments.keys() - {"input", "dimensions", "model"}):
        raise InvalidDirectCall(
            f"an embedder takes input, dimensions and model, and no {unknown[0][:40]!r}"
        )
    texts = arguments.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not 1 <= len(texts) <= TEXTS_MAX:
        raise InvalidDirectCall(f"input must be a text, or a list of 1 to {TEXTS_MAX} texts")
    for place, text in enumerate(texts):
        if not isinstance(text, str) or not text:
            raise InvalidDirectCall(f"input[{place}] must be a text that is not empty")


def _arguments(spec: pb.DirectCallSpec) -> dict[str, Any]:
    return _object(spec.arguments_json, "arguments_json")


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidDirectCall(f"{name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidDirectCall(f"{name} is no JSON object")
    return found


def _budget(call: DirectCall) -> budget_pb.Budget:
    return budget_pb.Budget(
        id=call.stored.budget_id,
        window=budget_pb.BUDGET_WINDOW_TOTAL,
        hard_limit=call.spec.budget,
        scope=budget_pb.BUDGET_SCOPE_NAMED,
    )


def _is_id(call_id: str) -> bool:
    try:
        parsed = uuid.UUID(call_id)
    except ValueError:
        return False
    return parsed.version in (7, 8) and str(parsed) == call_id


def _check(spec: pb.DirectCallSpec) -> None:
    """Checks what the contract's bounds cannot express. Raises InvalidDirectCall, InvalidMoney."""
    if spec.ByteSize() > SPEC_BYTES_MAX:
        raise InvalidDirectCall(f"the call is longer than {SPEC_BYTES_MAX // 1024} KiB")
    if spec.HasField("budget") and money_from_proto(spec.budget).amount <= 0:
        raise InvalidDirectCall("the budget must be above zero; leave it out for no limit")
    _arguments(spec)

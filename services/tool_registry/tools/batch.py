"""Registers many tools at once; what cannot be registered is left out, with the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_registry.models import PLATFORM, ToolSpec
from tool_registry.tools.catalogue import Tools
from tool_registry.tools.checks import check_executor, check_fairly
from tool_registry.tools.operator_resources import OperatorResources
from tool_registry.tools.service import Registry, digest_of
from tool_registry.tools.store_batch import BatchOutcome, NewTool, ToolBatchStore

NAMED_BEFORE = "another spec of this request has the name; give each tool a name of its own"

# A spec, or what is wrong with the message it came in.
Read = ToolSpec | DomainError


@dataclass(frozen=True)
class ToolBatches:
    store: ToolBatchStore
    registry: Registry

    async def register(
        self, specs: Sequence[Read], shared: bool, validate_only: bool
    ) -> list[BatchOutcome]:
        identity = current_identity()
        if shared:
            require_scope(Scope.PLATFORM_ADMIN)
        tools = (await self.registry.catalogue()).tools
        names: set[str] = set()
        checked = [await _checked(spec, shared, names, tools.resources) for spec in specs]
        together = {each.spec.name: each.spec for each in checked if isinstance(each, NewTool)}
        checked = [_composed(each, together, tools, shared) for each in checked]
        good = [each for each in checked if isinstance(each, NewTool)]
        owner = PLATFORM if shared else identity.tenant
        stored = iter(await self.store.register(owner, good, identity.subject, validate_only))
        return [
            next(stored) if isinstance(each, NewTool) else BatchOutcome(problem=each)
            for each in checked
        ]


async def _checked(
    spec: Read, shared: bool, names: set[str], resources: OperatorResources
) -> NewTool | str:
    if isinstance(spec, DomainError):
        return spec.message
    if spec.name.lower() in names:
        return NAMED_BEFORE
    names.add(spec.name.lower())
    try:
        await check_fairly(spec, shared)
        if not shared:
            resources.check(spec)
    except DomainError as error:
        return error.message
    return NewTool(spec, digest_of(spec.wire))


def _composed(
    checked: NewTool | str, together: Mapping[str, ToolSpec], tools: Tools, shared: bool
) -> NewTool | str:
    """Checks the executor of a composite tool, which may come with the same request."""
    if isinstance(checked, str):
        return checked
    spec = checked.spec
    executor = together.get(spec.executor) or tools.executor_of(spec, shared=shared)
    try:
        check_executor(spec, executor, shared=shared)
    except DomainError as error:
        return error.message
    return checked

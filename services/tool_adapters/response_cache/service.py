"""Answers of language models that are given again for the same request of a tenant and policy."""

import dataclasses
import hashlib
import json
import logging
from dataclasses import dataclass
from typing import Any

from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity
from tool_adapters.adapter import Answer, Output, ToolCall
from tool_adapters.models import SideEffect, ToolDefinition
from tool_adapters.response_cache.models import CacheRule
from tool_adapters.response_cache.store import CacheKey, PostgresResponseCache

log = logging.getLogger(__name__)

# Of a model that has written all that it would; vectors have no reason.
WHOLE = frozenset({"stop", "tool_calls", ""})


@dataclass(frozen=True)
class ResponseCache:
    """A database that is away costs a hit, and no call."""

    answers: PostgresResponseCache

    async def find(
        self, rule: CacheRule | None, call: ToolCall, tool: ToolDefinition
    ) -> Answer | None:
        if rule is None or not _is_repeatable(rule, call, tool):
            return None
        try:
            stored = await self.answers.find(_key(call, tool), rule)
        except DomainError as error:
            log.warning("the response cache is not asked: %s", error.message)
            return None
        return None if stored is None else rule.hit(stored)

    async def store(
        self, rule: CacheRule | None, call: ToolCall, tool: ToolDefinition, answer: Answer
    ) -> None:
        """Stores a whole answer of the model that was asked, as it may be shown."""
        if rule is None or not _is_repeatable(rule, call, tool):
            return
        is_whole = isinstance(answer.outcome, Output) and answer.finish_reason in WHOLE
        if not is_whole or answer.model_alias != call.model_alias:
            return
        try:
            await self.answers.store(_key(call, tool), rule, current_identity().subject, answer)
        except DomainError as error:
            log.warning("an answer is not stored in the response cache: %s", error.message)


def _is_repeatable(rule: CacheRule, call: ToolCall, tool: ToolDefinition) -> bool:
    if tool.side_effect is SideEffect.EFFECTFUL or not tool.kind.has_models:
        return False
    asked = call.conversation.temperature if call.conversation else None
    return rule.sampled or not tool.samples(call.model_alias, asked)


def _key(call: ToolCall, tool: ToolDefinition) -> CacheKey:
    """The digest of all that the model is sent, and of the models of its tool."""
    content = {
        "tool": [tool.name, call.tool_version],
        "connection": dataclasses.asdict(tool.connection),
        "model": call.model_alias,
        "arguments": call.arguments,
        "task": call.task,
        "context": call.context,
        "max_output_tokens": call.max_output_tokens,
        "conversation": dataclasses.asdict(call.conversation) if call.conversation else None,
        "files": [dataclasses.asdict(each) for each in call.files],
        "offered_tools": [dataclasses.asdict(each) for each in call.offered_tools],
    }
    text = json.dumps(content, sort_keys=True, default=_written)
    return CacheKey(call.tenant, hashlib.sha256(text.encode(errors="surrogatepass")).digest())


def _written(value: Any) -> str:
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else str(value)

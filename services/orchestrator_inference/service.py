"""Situation -> Decision: build the prompt, ask the engine, parse the action."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from cachetools import LRUCache

from orchestrator_inference.action.answer_text import AnswerText
from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.action.schema import ActionOptions, Bounds
from orchestrator_inference.action.template_reply import parse_template_reply
from orchestrator_inference.engine.engine import Engine, ModelCall, TextListener
from orchestrator_inference.errors import (
    ContextTooLong,
    EmptyTask,
    ModelNotFound,
    VersionNotServed,
    WrongVersion,
)
from orchestrator_inference.models import (
    Completion,
    Constraint,
    Decision,
    EngineModel,
    PromptMode,
    PromptTool,
    Situation,
)
from orchestrator_inference.prompt.budgets import (
    PROMPT_TOKENS_MIN,
    Room,
    SectionBudgets,
    estimated_tokens,
    room_for,
)
from orchestrator_inference.prompt.chat import build_chat
from orchestrator_inference.prompt.parts import preference_line
from orchestrator_inference.prompt.stateless import build_stateless, build_template
from orchestrator_inference.prompt.toolset import PromptToolset, PromptToolsets
from orchestrator_inference.rules import decided_by_rule
from orchestrator_inference.versions.routing import VersionRouting
from podium_kit.limits.concurrency import FairThread
from podium_kit.models.rules import names_rule
from podium_kit.policy_versions.names import PREFIX
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity

log = logging.getLogger(__name__)

R = TypeVar("R")
LeftOut = tuple[str, ...]
BUILDERS = {
    PromptMode.STATELESS: build_stateless,
    PromptMode.CHAT: build_chat,
    PromptMode.TEMPLATE: build_template,
}


PREPARED_KEPT = 1_024
# The bound of the contract's parallel_calls.
PARALLEL_CALLS_LIMIT = 16


class StringBounds(StrEnum):
    ALWAYS = "always"
    AFTER_CUT = "after_cut"


@dataclass(frozen=True)
class Policy:
    budgets: SectionBudgets
    parallel_calls_max: int = PARALLEL_CALLS_LIMIT
    string_bounds: StringBounds = StringBounds.ALWAYS
    any_whitespace: bool = False
    model_sku: str = ""
    prompt_mode: PromptMode = PromptMode.STATELESS
    template_arguments: Mapping[str, Any] = field(default_factory=dict)


class Orchestrator:
    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        max_in_flight: int,
        routing: VersionRouting | None = None,
    ) -> None:
        """Makes a service. Without `routing` there are no policy versions: models are the engine's
        alone.
        """
        self._engine = engine
        self._routing = routing
        self._policy = policy
        self._toolsets = PromptToolsets(policy.budgets.tool_description_chars_max)
        # First come, first served, and never idle while a call waits.
        self._slots = asyncio.Semaphore(max_in_flight)
        self._grammars = FairThread()
        self._prepared: LRUCache[
            tuple[tuple[PromptTool, ...], ActionOptions | None],
            tuple[PromptToolset, Constraint | None],
        ] = LRUCache(PREPARED_KEPT)

    async def next_action(
        self, situation: Situation, on_answer: TextListener | None = None
    ) -> Decision:
        """`on_answer` gets the final answer while the model writes it, where nothing that follows
        changes it: a schema may reject it, and without a grammar a call may follow a text."""
        if names_rule(situation.model):
            return decided_by_rule(situation)
        by_template = situation.prompt_mode is PromptMode.TEMPLATE
        if by_template or situation.rules.answer_schema:
            on_answer = None
        return await self._routed(situation, partial(self._decide, on_answer=on_answer))

    async def next_action_streaming(self, situation: Situation) -> AsyncGenerator[str | Decision]:
        """Yields the final answer while the model writes it, see `next_action`, and the decision
        last."""
        pieces: list[str] = []
        written = asyncio.Event()

        def show(piece: str) -> None:
            pieces.append(piece)
            written.set()

        deciding = asyncio.create_task(self.next_action(situation, show))
        deciding.add_done_callback(lambda _: written.set())
        try:
            while pieces or not deciding.done():
                if not pieces:
                    await written.wait()
                    written.clear()
                if piece := "".join(pieces):
                    pieces.clear()
                    yield piece
            yield deciding.result()
        finally:
            deciding.cancel()

    async def count_tokens(self, situation: Situation) -> int:
        if names_rule(situation.model):
            return 0
        return await self._routed(situation, self._count)

    async def _routed(
        self, situation: Situation, ask: Callable[[Situation, str], Awaitable[R]]
    ) -> R:
        if not situation.task.strip():
            raise EmptyTask
        if self._routing is None:
            return await ask(situation, situation.model)
        with self._routing.routed(situation.model) as name:
            try:
                return await ask(situation, name)
            except ModelNotFound as error:
                if not name.startswith(PREFIX):
                    raise
                # A replica that has just started: the next round brings it the version.
                raise VersionNotServed(name) from error

    async def _decide(
        self, situation: Situation, name: str, on_answer: TextListener | None
    ) -> Decision:
        model = await self._engine.model(name)
        situation = self._bounded(situation, model)
        toolset, constraint = await self._toolset(situation)
        answer = AnswerText(on_answer) if on_answer else None
        completion, left_out = await self._complete(
            situation, model, toolset, constraint, answer.add if answer else None
        )
        if answer:
            answer.end()
        if left_out:
            log.warning("the prompt of %s is without %s", situation.key, "; ".join(left_out))
        # Of other engines the name is a hint: they answer with a dated one.
        if name.startswith(PREFIX) and completion.model_version != name:
            raise WrongVersion(name, completion.model_version)
        by_template = situation.prompt_mode is PromptMode.TEMPLATE
        parse = parse_template_reply if by_template else parse_action
        return Decision(
            action=parse(
                completion,
                toolset.sections,
                situation.parallel_calls,
                situation.rules,
            ),
            completion=completion,
            sampling=situation.sampling,
            constraint=constraint if completion.constrained else None,
            sku=self.sku(model),
            prompt_digest=model.prompt_digest,
            left_out=left_out,
            preference_line=preference_line(situation),
        )

    async def _count(self, situation: Situation, name: str) -> int:
        model = await self._engine.model(name)
        situation = self._bounded(situation, model)
        toolset, constraint = await self._toolset(situation)
        call, _, _ = await self._fitted(situation, model, toolset, constraint)
        return await self._engine.count_tokens(call)

    def _bounded(self, situation: Situation, model: EngineModel) -> Situation:
        """Replaces an unset number of parallel calls by the model's; the operator's bounds both."""
        wanted = situation.parallel_calls or model.parallel_calls
        return replace(situation, parallel_calls=min(wanted, self._policy.parallel_calls_max))

    async def _toolset(self, situation: Situation) -> tuple[PromptToolset, Constraint | None]:
        by_template = situation.prompt_mode is PromptMode.TEMPLATE
        options = None if by_template else self._options(situation)

        def prepare() -> tuple[PromptToolset, Constraint | None]:
            toolset = self._toolsets.of(situation.tools)
            return toolset, None if options is None else toolset.constraint(options)

        asked = situation.tools, options
        found = self._prepared.get(asked)
        if found is None:
            found = await self._grammars.run(current_identity().tenant, prepare)
            self._prepared[asked] = found
        return found

    async def models(self) -> tuple[EngineModel, ...]:
        if self._routing is None:
            return await self._engine.models()
        for version in self._routing.admitted:
            # One admitted a moment ago may be missing in the list that is remembered.
            with suppress(ModelNotFound):
                await self._engine.model(version)
        return self._routing.with_aliases(await self._engine.models())

    def sku(self, model: EngineModel) -> str:
        """Price-book SKU of the default model and its adapters; "" (unknown) for others."""
        return self._policy.model_sku if model.is_default or model.adapts_default else ""

    def prompt_mode(self, model: EngineModel) -> PromptMode:
        """The mode in which a model is asked where an episode names none."""
        serves = model.is_default or model.adapts_default
        return self._policy.prompt_mode if serves else PromptMode.STATELESS

    def _options(self, situation: Situation) -> ActionOptions:
        return ActionOptions(
            max_tokens=situation.sampling.max_tokens,
            rules=situation.rules,
            parallel_calls_max=situation.parallel_calls,
            bounds=self._bounds(situation),
            any_whitespace=self._policy.any_whitespace,
        )

    def _bounds(self, situation: Situation) -> Bounds:
        """A model that ran out of tokens before gets a grammar its tokens can hold."""
        if any(turn.was_cut for turn in situation.turns):
            return Bounds.CODE
        always = self._policy.string_bounds is StringBounds.ALWAYS
        return Bounds.PROSE if always or situation.rules.must_answer else Bounds.THOUGHT

    async def _complete(
        self,
        situation: Situation,
        model: EngineModel,
        toolset: PromptToolset,
        constraint: Constraint | None,
        on_text: TextListener | None,
    ) -> tuple[Completion, LeftOut]:
        call, left_out, room = await self._fitted(situation, model, toolset, constraint)
        by_count = True
        async with self._slots:
            while True:
                try:
                    return await self._engine.complete(call, on_text), left_out
                except ContextTooLong:
                    # Once by the engine's count. What is kept may have more tokens a byte than
                    # what is left out, so after that by halves.
                    counted = await self._counted(call, room) if by_count else None
                    by_count = False
                    if counted is None or counted.prompt_tokens >= room.prompt_tokens:
                        counted = room.shrunk()
                    shorter = self._shorter(situation, call, toolset, counted)
                    if shorter is None:
                        raise
                    call, left_out, room = shorter

    def _shorter(
        self, situation: Situation, call: ModelCall, toolset: PromptToolset, room: Room
    ) -> tuple[ModelCall, LeftOut, Room] | None:
        """The call with less in it, in this room or a half, a quarter, ... of it; None: in none."""
        while room.prompt_tokens >= PROMPT_TOKENS_MIN:
            shorter, left_out = self._call(situation, call.model, toolset, call.constraint, room)
            if (shorter.messages, shorter.functions) != (call.messages, call.functions):
                return shorter, left_out, room
            room = room.shrunk()
        return None

    async def _fitted(
        self,
        situation: Situation,
        model: EngineModel,
        toolset: PromptToolset,
        constraint: Constraint | None,
    ) -> tuple[ModelCall, LeftOut, Room]:
        """Returns the call with as much as fits, by the engine's own count."""
        room = room_for(model.context_tokens, situation.sampling.max_tokens, self._policy.budgets)
        call, left_out = self._call(situation, model, toolset, constraint, room)
        if left_out and (counted := await self._counted(call, room)):
            room = counted
            call, left_out = self._call(situation, model, toolset, constraint, room)
        return call, left_out, room

    async def _counted(self, call: ModelCall, room: Room) -> Room | None:
        """The room by the engine's count of a call's prompt; None where it does not count."""
        try:
            tokens = await self._engine.count_tokens(call)
        except DomainError:
            return None
        texts = [message.content for message in call.messages]
        texts += [json.dumps(function) for function in call.functions]
        return room.counted(sum(map(estimated_tokens, texts)), tokens)

    def _call(
        self,
        situation: Situation,
        model: EngineModel,
        toolset: PromptToolset,
        constraint: Constraint | None,
        room: Room,
    ) -> tuple[ModelCall, LeftOut]:
        build = BUILDERS[situation.prompt_mode]
        prompt = build(situation, toolset, room, situation.parallel_calls)
        messages = tuple(prompt.messages)
        call = ModelCall(situation.key, model, messages, situation.sampling, constraint)
        if constraint is None:
            call = replace(
                call,
                functions=prompt.functions,
                several_calls=situation.parallel_calls > 1,
                template_arguments=self._policy.template_arguments,
            )
        return call, prompt.left_out

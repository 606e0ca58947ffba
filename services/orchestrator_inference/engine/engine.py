from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator_inference.errors import ModelNotFound
from orchestrator_inference.models import (
    Completion,
    Constraint,
    EngineModel,
    Message,
    Sampling,
)
from podium_kit.rpc.errors import Unavailable


@dataclass(frozen=True)
class ModelCall:
    """One completion to ask for. The key goes along as request id, for the engine's log.

    Either a constraint says what the reply looks like, or the chat template of the model does,
    which is given the functions and its own arguments.
    """

    key: str
    model: EngineModel
    messages: tuple[Message, ...]
    sampling: Sampling
    constraint: Constraint | None
    functions: tuple[Mapping[str, Any], ...] = ()
    several_calls: bool = False
    """True if the reply may call more than one of the functions."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)


# Gets the text of a reply, piece by piece, while it is written.
TextListener = Callable[[str], None]


class Engine(Protocol):
    """Every method raises the Engine... errors of `errors`."""

    async def model(self, name: str) -> EngineModel: ...

    async def models(self) -> tuple[EngineModel, ...]: ...

    async def count_tokens(self, call: ModelCall) -> int:
        """Tokens of the call's prompt. Raises TokensNotCounted for an engine that cannot count."""

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        """One completion. Raises ContextTooLong when the engine counts too many tokens.

        `on_text` gets the text of a reply that a grammar binds; of any other it gets none.
        """


class EnginePool:
    """Asks the engine that lists the model; the first engine has the default."""

    def __init__(self, main: Engine, others: Callable[[], Sequence[Engine]]) -> None:
        """`others` are asked for again at every call: engines come and go."""
        self._main = main
        self._others = others
        self._found: dict[str, Engine] = {}
        self._turn = 0

    async def model(self, name: str) -> EngineModel:
        # Where it was found beside the main engine, that one may be busy or away.
        if name in self._found and (model := await self._of_others(name)):
            return model
        try:
            return await self._main.model(name)
        except ModelNotFound:
            if model := await self._of_others(name):
                return model
            raise

    async def _of_others(self, name: str) -> EngineModel | None:
        for engine in self._in_turn():
            try:
                model = await engine.model(name)
            except (ModelNotFound, Unavailable):
                continue
            self._found[model.name] = engine
            return model
        return None

    def _in_turn(self) -> list[Engine]:
        """The others, another one first at every call: replicas of one version share its calls."""
        engines = list(self._others())
        self._turn += 1
        start = self._turn % max(1, len(engines))
        return engines[start:] + engines[:start]

    async def models(self) -> tuple[EngineModel, ...]:
        found = {model.name: model for model in await self._main.models()}
        for engine in self._others():
            try:
                found = {model.name: model for model in await engine.models()} | found
            except Unavailable:
                continue
        return tuple(found[name] for name in sorted(found))

    async def count_tokens(self, call: ModelCall) -> int:
        return await self._found.get(call.model.name, self._main).count_tokens(call)

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        return await self._found.get(call.model.name, self._main).complete(call, on_text)

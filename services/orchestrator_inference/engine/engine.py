from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator_inference.models import (
    Completion,
    Constraint,
    EngineModel,
    Message,
    Sampling,
)


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
    template_arguments: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Every method raises the Engine... errors of `errors`."""

    async def model(self, name: str) -> EngineModel: ...

    async def models(self) -> tuple[EngineModel, ...]: ...

    async def count_tokens(self, call: ModelCall) -> int:
        """Tokens of the call's prompt. Raises TokensNotCounted for an engine that cannot count."""

    async def complete(self, call: ModelCall) -> Completion:
        """One completion. Raises ContextTooLong when the engine counts too many tokens."""

"""The interface of a model engine, independent of its client."""

from dataclasses import dataclass
from typing import Protocol

from orchestrator_inference.models import (
    Completion,
    Constraint,
    EngineModel,
    Message,
    Sampling,
)


@dataclass(frozen=True)
class ModelCall:
    """One completion to ask for. The key goes along as request id, for the engine's log."""

    key: str
    model: EngineModel
    messages: tuple[Message, ...]
    sampling: Sampling
    constraint: Constraint


class Engine(Protocol):
    """Serves models. Every method raises the Engine... errors of `errors`."""

    async def model(self, name: str) -> EngineModel:
        """The model of that name, the default for an empty one. Raises ModelNotFound."""

    async def models(self) -> tuple[EngineModel, ...]:
        """Every model served now, by name."""

    async def complete(self, call: ModelCall) -> Completion:
        """One completion. Raises ContextTooLong when the engine counts too many tokens."""

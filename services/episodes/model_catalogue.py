"""The orchestrator models that can be asked, remembered for a few seconds."""

import time

from episodes.clients import OrchestratorClient
from episodes.errors import ModelNotFound
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb

REFRESH_AFTER_S = 10.0


class OrchestratorModels:
    """Finds a model by name; the empty name is the default model."""

    def __init__(self, orchestrator: OrchestratorClient) -> None:
        self._orchestrator = orchestrator
        self._models: list[pb.Model] = []
        self._fresh_until = 0.0

    async def find(self, name: str) -> pb.Model:
        """The model. Raises ModelNotFound."""
        model = self._known(name) if time.monotonic() < self._fresh_until else None
        if model is None:
            # Also for a name that is not remembered: it may have been published since.
            self._models = await self._orchestrator.models()
            self._fresh_until = time.monotonic() + REFRESH_AFTER_S
            model = self._known(name)
        if model is None:
            raise ModelNotFound(name or "(default)", [model.name for model in self._models])
        return model

    def _known(self, name: str) -> pb.Model | None:
        wanted = (each for each in self._models if each.name == name)
        default = (each for each in self._models if each.is_default)
        return next(wanted if name else default, None)

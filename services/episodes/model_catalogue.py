"""The orchestrator models that can be asked, remembered for a few seconds."""

import time

from episodes.clients import Orchestrator
from episodes.errors import ModelNotFound
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb

REFRESH_AFTER_S = 10.0


class ModelCatalogue:
    """Finds a model by name; the empty name is the default model."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._models: list[pb.Model] = []
        self._fresh_until = 0.0

    async def find(self, name: str) -> pb.Model:
        """The model. Raises ModelNotFound."""
        if time.monotonic() > self._fresh_until:
            self._models = await self._orchestrator.models()
            self._fresh_until = time.monotonic() + REFRESH_AFTER_S
        for model in self._models:
            if model.name == name or (not name and model.is_default):
                return model
        raise ModelNotFound(name or "(default)", [model.name for model in self._models])

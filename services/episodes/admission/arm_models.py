from collections.abc import Mapping
from dataclasses import dataclass

from episodes.clients import Ledger, OrchestratorModels
from episodes.errors import UnpricedArm


@dataclass(frozen=True)
class ArmModels:
    """The orchestrators of an evaluation's arms, which are checked before anything is spent."""

    models: OrchestratorModels
    ledger: Ledger

    async def check(self, arms: Mapping[str, str]) -> None:
        """Raises ModelNotFound, UnpricedArm."""
        found = {arm: await self.models.find(name) for arm, name in arms.items()}
        priced = await self.ledger.priced({each.sku for each in found.values() if each.sku})
        for arm, model in found.items():
            if model.sku not in priced:
                raise UnpricedArm(arm, model.name, model.sku)

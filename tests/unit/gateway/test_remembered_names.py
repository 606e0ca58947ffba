import pytest

from callers import make_identity
from gateway.chat.catalogue import ChatModels, Choice
from gateway.errors import ModelNotFound
from gateway.models import OrchestratorModel, ToolModels
from podium_kit.rpc.identity import acting_as


class Names:
    def __init__(self) -> None:
        self.policies: list[str] = []
        self.asked = 0

    async def models(self) -> list[OrchestratorModel]:
        self.asked += 1
        return []

    async def policy_names(self) -> list[str]:
        return [*self.policies]

    async def tools(self) -> list[ToolModels]:
        return []


async def test_a_policy_can_be_named_as_soon_as_it_is_there() -> None:
    names = Names()
    catalogue = ChatModels(names, cache_s=60)
    with acting_as(make_identity()):
        with pytest.raises(ModelNotFound):
            await catalogue.resolve("podium:mine")
        names.policies.append("mine")
        assert await catalogue.resolve("podium:mine") == Choice("", "mine")
        assert await catalogue.resolve("podium:mine") == Choice("", "mine")
    assert names.asked == 2

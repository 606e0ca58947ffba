from typing import Any

from episodes.webhooks.polled_events import Promotions
from podium_kit.rpc.errors import Unavailable


class LoadingEngine:
    async def promoted(self) -> str:
        raise Unavailable("the model engine does not answer")


async def test_while_an_engine_loads_its_promoted_version_is_unknown_and_has_not_changed() -> None:
    untouched: Any = None
    await Promotions(untouched, untouched, LoadingEngine()).poll()

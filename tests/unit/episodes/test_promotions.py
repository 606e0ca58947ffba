from typing import Any

import pytest

from episodes.webhooks.polled_events import Promotions
from podium_kit.rpc.errors import DomainError, InternalError, Unavailable


class FailingModels:
    def __init__(self, error: DomainError) -> None:
        self.error = error

    async def promoted(self) -> str:
        raise self.error


async def test_while_an_engine_loads_its_promoted_version_is_unknown_and_has_not_changed() -> None:
    untouched: Any = None
    away = FailingModels(Unavailable("the model engine does not answer"))
    await Promotions(untouched, untouched, away).poll()


async def test_a_fault_of_the_inference_service_fails_the_round() -> None:
    untouched: Any = None
    with pytest.raises(InternalError):
        await Promotions(untouched, untouched, FailingModels(InternalError())).poll()

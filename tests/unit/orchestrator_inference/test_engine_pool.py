"""Versions with engines of their own are served whatever becomes of the main engine."""

from dataclasses import dataclass

import pytest

from orchestrator_builders import make_completion
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.engine.pool import EnginePool
from orchestrator_inference.errors import EngineUnreachable, EngineUnwell, ModelNotFound
from orchestrator_inference.models import Completion, EngineModel
from podium_kit.rpc.errors import DomainError


@dataclass
class OneModel:
    """An engine of one model, which fails while it has a fault."""

    name: str
    fault: DomainError | None = None

    async def model(self, name: str) -> EngineModel:
        if self.fault:
            raise self.fault
        if name not in ("", self.name):
            raise ModelNotFound(name, [self.name])
        return EngineModel(self.name)

    async def models(self) -> tuple[EngineModel, ...]:
        return (await self.model(""),)

    async def count_tokens(self, call: ModelCall) -> int:
        return 1

    async def complete(self, call: ModelCall) -> Completion:
        return make_completion(self.name)


AWAY = EngineUnreachable("main", ConnectionRefusedError())


async def test_a_version_is_found_while_the_main_engine_is_away() -> None:
    main, other = OneModel("base"), OneModel("policy-demo-v1")
    pool = EnginePool(main, lambda: [other])
    found = await pool.model(other.name)
    main.fault = AWAY
    assert await pool.model(other.name) == found
    with pytest.raises(EngineUnreachable):
        await pool.model("base")
    other.fault = AWAY
    with pytest.raises(EngineUnreachable):
        await pool.model(other.name)


async def test_a_replica_that_is_unwell_is_passed_over() -> None:
    unwell = OneModel("policy-demo-v1", EngineUnwell("first", 503, None))
    pool = EnginePool(OneModel("base"), lambda: [unwell, OneModel("policy-demo-v1")])
    for _ in range(2):
        assert await pool.model("policy-demo-v1") == EngineModel("policy-demo-v1")
    assert [each.name for each in await pool.models()] == ["base", "policy-demo-v1"]

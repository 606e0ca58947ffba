from typing import cast

import pytest

from callers import make_identity
from episodes.clients import OrchestratorClient, OrchestratorModels
from episodes.errors import ModelNotFound
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.rpc.identity import acting_as, current_identity


class OwnModels:
    """Lists a model to each tenant, under the tenant's name."""

    async def models(self) -> list[pb.Model]:
        return [pb.Model(name=f"policy-{current_identity().tenant}-v1")]


async def test_a_list_that_is_remembered_is_one_tenants() -> None:
    models = OrchestratorModels(cast(OrchestratorClient, OwnModels()))
    for tenant, other in (("acme", "globex"), ("globex", "acme")):
        with acting_as(make_identity(tenant)):
            assert (await models.find(f"policy-{tenant}-v1")).name == f"policy-{tenant}-v1"
            with pytest.raises(ModelNotFound):
                await models.find(f"policy-{other}-v1")

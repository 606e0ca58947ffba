from typing import Any

import grpc
import pytest

from e2e.tenancy.cases import HOLD, SUBJECT, USAGE, filled
from e2e.tenancy.test_cross_tenant import METHODS
from e2e.tenancy.two_tenants import OWNER, STRANGER, Answer, TwoTenants
from podium.ledger.v1 import cost_ledger_service_pb2 as pb


class Ledger:
    def __init__(self, tenants: TwoTenants, turn: int) -> None:
        self._tenants = tenants
        self.key = f"{tenants.things['held_episode']}/{turn}/tool/0"
        self._turn = turn

    async def hold(self) -> None:
        subject = {**SUBJECT, "turn": self._turn}
        answer = await self.apply(OWNER, "reserve", {**HOLD, "key": self.key, "subject": subject})
        assert answer.code is grpc.StatusCode.OK, answer

    async def apply(self, tenant: str, operation: str, values: dict[str, Any]) -> Answer:
        return await self.call(tenant, "Apply", {"operations": [{operation: values}]})

    async def call(self, tenant: str, rpc: str, values: dict[str, Any]) -> Answer:
        request = filled(values, self._tenants.things)
        return await self._tenants.call(tenant, METHODS[f"CostLedgerService/{rpc}"], request)

    async def entries(self) -> list[bytes]:
        answer = await self.call(OWNER, "ListEntries", {"episode_id": "$held_episode"})
        listed = pb.ListEntriesResponse.FromString(answer.seen).entries
        return [one.SerializeToString() for one in listed if one.subject.turn == self._turn]


@pytest.mark.parametrize(
    ("turn", "mine"), [(11, ("capture", {"usage": USAGE})), (12, ("release", {}))]
)
async def test_a_hold_is_unchanged_after_another_tenant_tried_everything(
    tenants: TwoTenants, turn: int, mine: tuple[str, dict[str, Any]]
) -> None:
    ledger = Ledger(tenants, turn)
    await ledger.hold()
    before = await ledger.entries()
    tries: dict[str, dict[str, Any]] = {
        "capture": {"key": ledger.key, "usage": USAGE},
        "settle": {"key": ledger.key, "usage": USAGE},
        "release": {"key": ledger.key},
        "mark_dispatched": {"key": ledger.key},
    }
    for operation, values in tries.items():
        answer = await ledger.apply(STRANGER, operation, values)
        assert answer.code is grpc.StatusCode.NOT_FOUND, (operation, answer)
    await ledger.call(STRANGER, "ReleaseEpisode", {"episode_id": "$held_episode"})
    assert await ledger.entries() == before
    operation, values = mine
    answer = await ledger.apply(OWNER, operation, {"key": ledger.key, **values})
    assert answer.code is grpc.StatusCode.OK, answer
    assert len(await ledger.entries()) > len(before)

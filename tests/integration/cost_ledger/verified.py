from typing import Any

import grpc
import pytest

from integration.cost_ledger.running_ledger import Client
from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb


async def findings_of(client: Client) -> list[audit_pb2.Finding]:
    request = pb.VerifyLedgerRequest()
    found: list[audit_pb2.Finding] = []
    while True:
        page = await client.audit.VerifyLedger(request)
        found.extend(page.findings)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


async def rejection_of(call: Any, code: grpc.StatusCode) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    assert rejected.value.code() is code, rejected.value
    return str(rejected.value.details())

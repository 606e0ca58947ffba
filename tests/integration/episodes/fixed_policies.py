from typing import Any

import grpc
import jwt

from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import policy_service_pb2_grpc as policies_rpc
from podium_kit.rpc.interceptors import bearer_token

Context = grpc.aio.ServicerContext[Any, Any]


class FixedPolicies(policies_rpc.PolicyServiceServicer):
    def __init__(self) -> None:
        self.rejected: dict[str, str] = {}
        self.rejected_models: set[str] = set()
        self.asked: list[policies_pb.CheckCallsRequest] = []
        # Groups whose every call is rejected.
        self.bound: set[str] = set()
        # What tokens said of those who asked; no one verifies them here.
        self.callers: list[frozenset[str]] = []

    async def CheckCalls(
        self, request: policies_pb.CheckCallsRequest, context: Context
    ) -> policies_pb.CheckCallsResponse:
        self.asked.append(request)
        claims = jwt.decode(bearer_token(context), options={"verify_signature": False})
        self.callers.append(frozenset(claims.get("groups", ())))
        bound = self.bound & self.callers[-1]
        decisions = [
            policies_pb.CallDecision(
                allowed=not bound
                and call.tool_name not in self.rejected
                and call.model_alias not in self.rejected_models,
                reason=self.rejected.get(call.tool_name, ""),
            )
            for call in request.calls
        ]
        return policies_pb.CheckCallsResponse(decisions=decisions)

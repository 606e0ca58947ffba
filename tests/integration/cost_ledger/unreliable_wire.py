import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

FAULTS = ("request lost", "answer lost", "sent twice", "sent late", "none")
LATE_S = 0.05
# Says who calls; everything else in the metadata belongs to the hop.
FORWARDED = {"authorization"}


@dataclass
class UnreliableWire(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Forwards unary calls as bytes, each with a fault drawn from a seed."""

    upstream: grpc.aio.Channel
    random: random.Random
    faults: list[str] = field(default_factory=list)

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method

        async def forward(
            request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
        ) -> bytes:
            return await self._forward(method, request, context)

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _forward(
        self, method: str, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> bytes:
        fault = self.random.choice(FAULTS)
        self.faults.append(fault)
        metadata = [(k, v) for k, v in context.invocation_metadata() or () if k in FORWARDED]

        async def send() -> bytes:
            answer: bytes = await self.upstream.unary_unary(method, bytes, bytes)(
                request, metadata=metadata
            )
            return answer

        if fault == "request lost":
            await context.abort(grpc.StatusCode.UNAVAILABLE, fault)
        if fault == "sent late":
            await asyncio.sleep(self.random.uniform(0, LATE_S))
        copies = 2 if fault == "sent twice" else 1
        answers = await asyncio.gather(*(send() for _ in range(copies)))
        if fault == "answer lost":
            await context.abort(grpc.StatusCode.UNAVAILABLE, fault)
        return answers[-1]


@asynccontextmanager
async def unreliable_wire(port: int, seed: int) -> AsyncIterator[tuple[int, UnreliableWire]]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as upstream:
        wire = UnreliableWire(upstream, random.Random(seed))
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((wire,))
        proxy_port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield proxy_port, wire
        await server.stop(0)

"""A server process: the policy "slow" is answered once the file RELEASE exists."""

import asyncio
import os
from pathlib import Path

from integration.podium_kit.rpc.policies_under_test import policy_named, policy_service
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.rpc.server import run_server
from podium_kit.rpc.settings import ServerSettings, load_settings


async def answer(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    if request.name == "slow":
        await asyncio.to_thread(Path(os.environ["STARTED"]).touch)
        while not await asyncio.to_thread(Path(os.environ["RELEASE"]).exists):
            await asyncio.sleep(0.02)
    return policy_named(request.name)


if __name__ == "__main__":
    asyncio.run(run_server(load_settings(ServerSettings), [policy_service(answer)], {}))

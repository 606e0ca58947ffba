"""Asks every expert before anything is compared, as a platform in use has done.

Prompts state what a call of a model costs and takes as it was measured. Where nothing was, they say
`latency unknown`, and no weight of cost or latency can be obeyed.
"""

import asyncio
from collections.abc import Sequence

from bench.figures import say
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb2
from podium_cli.tools.trying import called
from podium_kit.client.gateway import Gateway
from podium_training.experts.pool import Pool
from podium_training.tasks.task import Task

CALLS = 10
"""Enough for a share of successes, too."""


async def measure_experts(gateway: Gateway, pool: Pool, tasks: Sequence[Task], policy: str) -> None:
    tool = pool.tool
    aliases = [each.alias for each in pool.experts]
    for alias in aliases:
        say(f"  asking {alias}")
        for task in tasks[:CALLS]:
            asked = orchestrator_pb.ConversationMessage(role="user", content=task.question)
            spec = calls_pb.DirectCallSpec(
                tool_name=tool, model_alias=alias, policy=policy, messages=[asked]
            )
            await called(gateway, spec)
    async with asyncio.timeout(60):
        while not {*aliases} <= await _known(gateway, tool):
            await asyncio.sleep(1)


async def _known(gateway: Gateway, tool: str) -> set[str]:
    reply = await gateway.get("/v1/tool-facts", registry_pb2.ListToolFactsResponse)
    return {facts.model_alias for facts in reply.facts if facts.tool_name == tool}

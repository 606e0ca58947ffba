"""Workers that take turns in the test's own process, one attempt after or beside the other."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.testing import ActivityEnvironment

from callers import make_key_pair
from episodes.config import WorkerConfig
from episodes.execution.executor import EpisodeExecutor, ExecutionLimits
from episodes.execution.outcomes import Outcome, TurnInput
from episodes.models import Membership
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.store import EpisodeStore
from episodes.worker import executor_of
from integration.episodes.neighbours import make_toolset
from integration.episodes.platform_under_test import UPSTREAM_TARGETS
from integration.episodes.queue_rows import new_episode
from integration.episodes.tenants import Neighbours, TenantNeighbours
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.settings import SigningKey
from podium_kit.stream import KafkaSettings

TENANT = "acme"


@dataclass(frozen=True)
class Workers:
    engine: AsyncEngine
    config: WorkerConfig
    tenants: TenantNeighbours
    neighbours: Neighbours

    def another(self) -> EpisodeExecutor:
        """What a worker of its own takes turns with; nothing writes costs beside it."""
        return executor_of(self.config, self.engine, Settlements(StepStore(self.engine)))

    async def episode(
        self, toolset: toolset_pb2.Toolset | None = None, place: Membership | None = None
    ) -> str:
        offered = toolset or make_toolset("calculator")
        new = replace(new_episode(tenant=TENANT), toolset=offered.SerializeToString())
        new = replace(new, toolset_digest=new.episode_id.encode())
        new = replace(new, membership=place or new.membership)
        await EpisodeStore(self.engine).insert(new)
        return new.episode_id


@asynccontextmanager
async def workers_on(engine: AsyncEngine, folder: Path) -> AsyncIterator[Workers]:
    key, path, neighbours = make_key_pair(), folder / "worker.pem", Neighbours()
    path.write_text(key.private_pem)
    tenants = TenantNeighbours(neighbours)
    async with tenants.serve() as port:
        settings: dict[str, Any] = dict.fromkeys(UPSTREAM_TARGETS, f"127.0.0.1:{port}")
        settings |= {
            "database_url": "",
            "temporal_target": "",
            "kafka": KafkaSettings(bootstrap="nowhere:9092"),
            "signing_key": SigningKey(key_id=key.key_id, private_key_file=path),
        }
        yield Workers(engine, WorkerConfig(**settings), tenants, neighbours)


def run_from(episode_id: str, turn: int = 1) -> TurnInput:
    return TurnInput(episode_id, turn, run_to=5, finishes=True)


async def run(
    executor: EpisodeExecutor, asked: TurnInput, *, is_retry: bool = False, drains: bool = False
) -> Outcome:
    limits = ExecutionLimits(math.inf, asyncio.Event(), lambda _: "drain" if drains else "")
    return await executor.run(asked, limits, is_retry=is_retry)


def attempt(number: int) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number)
    return environment

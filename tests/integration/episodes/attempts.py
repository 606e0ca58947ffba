import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.testing import ActivityEnvironment

from callers import make_key_pair
from episodes.config import WorkerConfig
from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.store import DirectCallStore
from episodes.execution.executor import EpisodeExecutor, ExecutionLimits
from episodes.execution.outcomes import Outcome, TurnInput
from episodes.models import Membership, NewEpisode
from episodes.step_log.answer_parts import WrittenParts
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.step_log.store_notifications import AnswerPartNotifier
from episodes.store import EpisodeStore
from episodes.worker import executor_of
from integration.episodes.neighbours import make_toolset
from integration.episodes.platform_under_test import (
    UPSTREAM_TARGETS,
    Neighbours,
    TenantNeighbours,
    new_id,
)
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.settings import SigningKey
from podium_kit.stream import KafkaSettings

TIME_LIMIT_S = 600.0


def new_episode(group_size: int = 1, tenant: str = "acme") -> NewEpisode:
    episode_id = new_id()
    return NewEpisode(
        episode_id=episode_id,
        tenant=tenant,
        subject="ada",
        groups=frozenset(),
        spec=b"",
        toolset=b"",
        toolset_digest=b"digest",
        policy_name="balanced",
        policy_version=1,
        membership=Membership(episode_id, group_size, 0, episode_id),
        labels={},
        turn_limit=5,
        time_limit_s=TIME_LIMIT_S,
    )


async def queued_episode(engine: AsyncEngine, tenant: str = "acme") -> str:
    new = new_episode(tenant=tenant)
    await EpisodeStore(engine).insert(new, queued=True)
    return new.episode_id


async def queued_call(engine: AsyncEngine, tenant: str = "acme") -> str:
    call = StoredCall(new_id(), tenant, "ada", b"spec", b"toolset", datetime.now(UTC))
    await DirectCallStore(engine).insert(call)
    return call.id


TENANT = "acme"


@dataclass(frozen=True)
class Workers:
    """Workers that take turns in the test's own process, one attempt after or beside the other."""

    engine: AsyncEngine
    config: WorkerConfig
    tenants: TenantNeighbours
    neighbours: Neighbours

    def another(self) -> EpisodeExecutor:
        """The executor of another worker; nothing writes costs beside it."""
        settlements = Settlements(StepStore(self.engine))
        answers = WrittenParts(AnswerPartNotifier(self.engine))
        return executor_of(self.config, self.engine, settlements, answers)

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

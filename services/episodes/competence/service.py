"""Competence of tools: how often each was right in earlier tasks like the one at hand.

It is learnt from the tenant's verified episodes with consent to training, and never shared with
another tenant. Verdicts are read in the background: no start of an episode waits for them, and the
first one after the start of a process has none.
"""

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cachetools import TTLCache

from episodes.competence.posterior import Posterior, Result, posterior
from episodes.competence.store import CompetenceStore, Verified
from episodes.models import EXCERPT_CHARACTERS
from podium_kit.models.static_embeddings import StaticEmbeddings
from podium_kit.rpc.errors import DomainError, message_of
from podium_kit.rpc.identity import current_identity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float16]

log = logging.getLogger(__name__)

# With half a kilobyte of vector each: a quarter of a megabyte a tenant.
EPISODES_MAX = 500
TENANTS_MAX = 200
# Verdicts are read again at a start after the first time; a tenant without starts is forgotten
# after the second.
REFRESH_S, KNOWN_S = 2.0, 600.0
NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True)
class Example:
    verified: Verified
    task: "Vector"


@dataclass
class _Known:
    """The verified episodes of a tenant by their ids, the newest first. Replaced, never changed."""

    examples: Mapping[str, Example] = field(default_factory=dict)
    read_at: float = float("-inf")
    reading: asyncio.Task[None] | None = None


class CompetenceRecords:
    def __init__(self, store: CompetenceStore) -> None:
        self._store = store
        self._embeddings = StaticEmbeddings()
        self._tenants: TTLCache[str, _Known] = TTLCache(TENANTS_MAX, KNOWN_S)

    async def of(self, task: str, without: Set[str]) -> Mapping[str, Posterior]:
        """Returns the records of tools, and models of tools, in tasks like this one.

        Episodes of the groups and ids `without` do not count: they have the same task.
        """
        examples = [
            each
            for each in self._of(current_identity().tenant).examples.values()
            if not without & {each.verified.group_id, each.verified.episode_id}
        ]
        if not examples:
            return {}
        [vector] = await self._vectors([task[:EXCERPT_CHARACTERS]])
        return records(examples, vector)

    def _of(self, tenant: str) -> _Known:
        """Returns what is known now, and reads in the background what is new."""
        known = self._tenants.get(tenant)
        if known is None:
            known = _Known()
        idle = known.reading is None or known.reading.done()
        if idle and time.monotonic() - known.read_at >= REFRESH_S:
            known.reading = asyncio.create_task(self._read(tenant, known))
            self._tenants[tenant] = known
        return known

    async def _read(self, tenant: str, known: _Known) -> None:
        before = known.examples
        try:
            newest = await self._store.newest(tenant, EPISODES_MAX)
            unread = [each.episode_id for each in newest if each.episode_id not in before]
            tasks = await self._store.tasks(unread) if unread else {}
        except DomainError as error:
            log.warning("verdicts on past episodes were not read: %s", message_of(error))
        else:
            vectors = {episode_id: each.task for episode_id, each in before.items()}
            vectors |= zip(tasks, await self._vectors(list(tasks.values())), strict=True)
            known.examples = {
                each.episode_id: Example(each, vectors[each.episode_id])
                for each in newest
                # One that was deleted meanwhile has no task.
                if each.episode_id in vectors
            }
        known.read_at = time.monotonic()

    async def _vectors(self, tasks: Sequence[str]) -> "list[Vector]":
        texts = [without_numbers(task) for task in tasks]
        return [vector.astype("float16") for vector in await self._embeddings.of(texts)]


def without_numbers(task: str) -> str:
    """Sums that differ in their numbers alone are tasks of one kind."""
    return NUMBER.sub(" number ", task)


def records(examples: Sequence[Example], task: "Vector") -> dict[str, Posterior]:
    import numpy as np

    tasks = np.stack([each.task for each in examples]).astype(np.float32)
    results: defaultdict[str, list[Result]] = defaultdict(list)
    for each, similarity in zip(examples, tasks @ task.astype(np.float32), strict=True):
        for tool in each.verified.tools:
            results[tool].append(Result(float(similarity), each.verified.score))
    return {tool: posterior(found) for tool, found in results.items()}

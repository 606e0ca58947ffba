import asyncio
from typing import Any

import pytest

from podium_kit.rpc.errors import Unavailable
from tool_registry.tools.changes import CatalogueChanges
from tool_registry.tools.store import Versions


class Store:
    def __init__(self) -> None:
        self.catalogue, self.reads = 1, asyncio.Event()

    async def versions(self) -> Versions:
        self.reads.set()
        return Versions(self.catalogue, facts=1)


async def test_a_version_is_awaited_until_it_is_another() -> None:
    store: Any = Store()
    changes = CatalogueChanges(store)
    waiting = asyncio.create_task(changes.after(1))
    await store.reads.wait()
    # A notification that may have been lost says nothing.
    changes.notify()
    await asyncio.sleep(0)
    assert not waiting.done()
    store.catalogue = 2
    changes.notify()
    assert await waiting == 2
    assert await changes.after(1) == 2


async def test_a_server_that_stops_sends_those_who_wait_to_others() -> None:
    store: Any = Store()
    changes = CatalogueChanges(store)
    waiting = asyncio.create_task(changes.after(1))
    await store.reads.wait()
    changes.end()
    for wait in (waiting, changes.after(1)):
        with pytest.raises(Unavailable):
            await wait

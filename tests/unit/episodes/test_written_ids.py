import asyncio
from typing import Any

import pytest

from callers import make_identity
from episodes.episodes.service import Episodes
from episodes.episodes.store_watch import News
from episodes.episodes.watch import Watcher
from episodes.execution.outcomes import Approval
from episodes.keys import canonical_id
from episodes.models import NewEpisode, StoredEpisode
from episodes.step_log.wakeups import Wakeups
from podium_kit.rpc.identity import Identity, Scope, acting_as
from unit.episodes.stored_episodes import ID, stored_episode


class Platform:
    def __init__(self) -> None:
        self.stored = stored_episode()
        self.queue = self
        self.called: list[tuple[str, str]] = []
        self.looked = asyncio.Event()

    async def get(self, _tenant: str, episode_id: str) -> StoredEpisode:
        assert canonical_id(episode_id) == ID
        return self.stored

    async def find(self, *_: object) -> object:
        return self

    async def hand_over(self, _: NewEpisode) -> None: ...

    async def cancel(self, episode_id: str) -> bool:
        """Of the queue, which does not have it, and of its workflow."""
        self.called.append(("cancel", episode_id))
        return False

    async def decide(self, episode_id: str, _: Approval) -> bool:
        self.called.append(("decide", episode_id))
        return True

    async def decided(self, _: object) -> None: ...

    async def after(self, *_: object) -> News:
        self.looked.set()
        return News()


@pytest.mark.parametrize("written", [ID, ID.upper(), ID.replace("-", ""), f"urn:uuid:{ID}"])
def test_an_id_has_one_form(written: str) -> None:
    assert canonical_id(written) == ID


@pytest.mark.parametrize("name", ["", "42", f"{ID}0", "calculator"])
def test_a_name_that_is_no_id_has_none(name: str) -> None:
    assert canonical_id(name) is None


async def test_a_workflow_is_found_by_the_id_that_it_is_called_by() -> None:
    platform: Any = Platform()
    parts = dict.fromkeys(Episodes.__dataclass_fields__, platform)
    with acting_as(Identity("acme", "boss", frozenset({Scope.CALLS_APPROVE}))):
        await Episodes(**parts).cancel(ID.upper())
        await Episodes(**parts).approve(ID.upper(), 1, 0, approved=True, reason="")
    assert platform.called == [("cancel", ID), ("cancel", ID), ("decide", ID)]


async def test_whoever_watches_under_another_form_is_told_at_once() -> None:
    platform: Any = Platform()
    wakeups = Wakeups()
    watcher = Watcher(platform, platform, wakeups)
    events = watcher.follow("acme", ID.upper(), 0)
    with acting_as(make_identity("acme")):
        assert (await anext(events)).sequence == 1
    more = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    wakeups.notify(ID)
    async with asyncio.timeout(5):
        await platform.looked.wait()
    more.cancel()
    with pytest.raises(asyncio.CancelledError):
        await more

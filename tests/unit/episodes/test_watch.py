import pytest

from episodes.episodes.watch import Watcher
from episodes.models import SEQUENCE_MAX
from episodes.step_log.wakeups import Wakeups
from podium_kit.rpc.bounds import OutOfBounds


async def test_a_sequence_that_no_event_can_have_is_rejected() -> None:
    watcher = Watcher(None, None, Wakeups())  # type: ignore[arg-type]
    with pytest.raises(OutOfBounds, match="after_sequence is 2147483648; give the sequence"):
        await anext(watcher.follow("acme", "0190", SEQUENCE_MAX + 1))

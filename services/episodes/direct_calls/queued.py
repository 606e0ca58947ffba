import asyncio
from dataclasses import dataclass

from episodes.direct_calls.call import DirectCall, StoredCall
from episodes.direct_calls.executor import DirectCallMaker
from episodes.direct_calls.store import call_of
from episodes.queue.store import LeasedRow, QueueTable, WorkQueue
from podium_kit.rpc.errors import DeadlineExceeded

CALL_QUEUE = QueueTable(
    kind="direct call",
    name="direct_call_queue",
    id="call_id",
    channel="direct_calls",
    read="d.*",
    join="JOIN direct_calls d ON d.id = leased.call_id",
    since="d.create_time",
    parse=call_of,
)
# Beyond the time of the call's tool, for the ledger and the stores.
MARGIN_S = 60.0
# Parts of the platform that are away for so long end the call.
OUTAGE_MAX_S = 600.0


@dataclass(frozen=True)
class QueuedCalls:
    queue: WorkQueue[StoredCall]
    maker: DirectCallMaker

    async def do(self, leased: LeasedRow[StoredCall]) -> None:
        """Makes the call. Raises DeadlineExceeded when that takes longer than its tool may."""
        stored = leased.item
        if stored.ended:
            await self.queue.drop(stored.id)
            return
        try:
            async with asyncio.timeout(_longest_s(stored)):
                await self.maker.make(stored)
        except TimeoutError as error:
            raise DeadlineExceeded("the platform did not make the call in time") from error

    async def fail(self, leased: LeasedRow[StoredCall], message: str) -> None:
        await self.maker.fail(leased.id, message)

    def max_age_s(self, leased: LeasedRow[StoredCall]) -> float:
        return _longest_s(leased.item) + OUTAGE_MAX_S


def _longest_s(stored: StoredCall) -> float:
    return DirectCall.of(stored).timeout_s + MARGIN_S

"""Asking the ledger again while nothing but other calls' holds leaves no room for a call.

What they hold is their worst case, of which they give most back. A call that had to fit beside it
would be rejected while the budget still has its money.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

# Half a minute in all: a caller waits, and what is held may be held by a call that waits for this.
PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0)


async def patiently(
    replies: list[pb.ReserveResponse],
    asked: Callable[[bool], Awaitable[list[pb.ReserveResponse]]],
) -> list[pb.ReserveResponse]:
    """The replies, or what `asked` gets later; it takes whether it will ask again.

    Calls that want money together do not wait once one of them has it: it would be waiting, too.
    """
    for pause in PAUSES_S:
        if not any(map(_is_held, replies)):
            return replies
        if any(reply.HasField("hold") for reply in replies):
            break
        # Those that were rejected together do not come back together.
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
        replies = await asked(True)
    return await asked(False)


def _is_held(reply: pb.ReserveResponse) -> bool:
    """Whether the call fits once others have given back what they hold."""
    return reply.rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_HELD

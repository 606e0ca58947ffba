"""A connection that notices when the machine of its server is gone.

A server that fails over to another machine ends no connection of the first one. Left to itself the
kernel sends what was written for a quarter of an hour before it reports that, and waits two hours
before it asks a peer that says nothing. A server that is slow answers for its connections all the
while: its kernel does.
"""

import asyncio
import socket
from typing import Any

import asyncpg

SILENT_S = 10
ASK_EVERY_S = 5
GONE_AFTER_S = 30
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ASK_EVERY_S),
    # Of what is written and of what keeps a connection alive: how long neither is acknowledged.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER_S * 1000),
)


class WatchedConnection(asyncpg.Connection):
    """asyncpg takes no options of a socket, but a class of its connections."""

    __slots__ = ()

    def __init__(self, protocol: Any, transport: asyncio.Transport, *parts: Any) -> None:
        super().__init__(protocol, transport, *parts)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            for level, name, value in OPTIONS:
                connected.setsockopt(level, name, value)

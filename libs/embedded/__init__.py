"""Real servers from wheels, on loopback: for `podium up`, tests and benchmarks."""

from embedded.errors import EmbeddedError, PortTaken, StartupFailed
from embedded.kafka import EmbeddedKafka
from embedded.ports import free_port, free_ports
from embedded.postgres import EmbeddedPostgres
from embedded.process import ManagedProcess
from embedded.server import EmbeddedServer
from embedded.temporal import EmbeddedTemporal

__all__ = [
    "EmbeddedError",
    "EmbeddedKafka",
    "EmbeddedPostgres",
    "EmbeddedServer",
    "EmbeddedTemporal",
    "ManagedProcess",
    "PortTaken",
    "StartupFailed",
    "free_port",
    "free_ports",
]

"""Real servers from wheels, on loopback: for `podium up`, tests and benchmarks."""

from embedded.errors import EmbeddedError, PortTaken, StartupFailed
from embedded.postgres import EmbeddedPostgres
from embedded.process import ManagedProcess

__all__ = [
    "EmbeddedError",
    "EmbeddedPostgres",
    "ManagedProcess",
    "PortTaken",
    "StartupFailed",
]

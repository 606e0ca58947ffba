"""Real servers from wheels, on loopback: for `podium up`, tests and benchmarks."""

from embedded.adapted_model import AdaptedModel
from embedded.errors import EmbeddedError, PortTaken, StartupFailed
from embedded.kafka import EmbeddedKafka
from embedded.ports import free_port, free_ports
from embedded.postgres import EmbeddedPostgres
from embedded.process import ManagedProcess
from embedded.server import EmbeddedServer
from embedded.smollm2 import SmolLM2
from embedded.temporal import EmbeddedTemporal
from embedded.vllm import EmbeddedVllm
from embedded.vllm_environment import VllmEnvironment

__all__ = [
    "AdaptedModel",
    "EmbeddedError",
    "EmbeddedKafka",
    "EmbeddedPostgres",
    "EmbeddedServer",
    "EmbeddedTemporal",
    "EmbeddedVllm",
    "ManagedProcess",
    "PortTaken",
    "SmolLM2",
    "StartupFailed",
    "VllmEnvironment",
    "free_port",
    "free_ports",
]

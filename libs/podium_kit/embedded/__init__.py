"""Real servers from wheels, on loopback: for `podium up`, tests and benchmarks."""

from podium_kit.embedded.errors import EmbeddedError, PortTaken, StartupFailed
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port, free_ports
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.embedded.vllm.adapted_model import AdaptedModel
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_kit.embedded.vllm.server import EmbeddedVllm

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

import json

from podium_kit.embedded.ports import accepts_connections, free_ports, require_free
from podium_operations.local.state import StateFolder

SERVERS = (
    "temporal",
    "temporal_ui",
    "kafka",
    "vllm",
    "cost_ledger",
    "tool_registry",
    "tool_adapters",
    "orchestrator_inference",
    "episodes",
    "episodes_worker",
    "gateway",
)


def assign_ports(state: StateFolder, gateway_port: int | None) -> dict[str, int]:
    """A free loopback port per server. Raises PortTaken for a gateway port someone holds."""
    if gateway_port is not None:
        require_free(gateway_port)
    remembered = _remembered(state)
    fresh = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
    ports = {
        name: port
        if accepts_connections(remembered.get(name, port))
        else remembered.get(name, port)
        for name, port in fresh.items()
    }
    if gateway_port is not None:
        ports["gateway"] = gateway_port
    state.ports_file.write_text(json.dumps(ports))
    return ports


def _remembered(state: StateFolder) -> dict[str, int]:
    try:
        ports = json.loads(state.ports_file.read_text())
    except (OSError, ValueError):
        return {}
    return {name: int(port) for name, port in ports.items()}

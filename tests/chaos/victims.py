from dataclasses import dataclass

GATEWAY, EPISODES, WORKER = "gateway", "episodes", "episodes_worker"
LEDGER, REGISTRY, ADAPTERS = "cost_ledger", "tool_registry", "tool_adapters"
INFERENCE = "orchestrator_inference"
POSTGRES, TEMPORAL, BROKER = "postgres", "temporal", "kafka"
MODEL_SERVER, TOOL_SERVER = "model_server", "tool_server"
SANDBOX, LOGS = "sandbox", "logs"
SIGNING_KEY, CERTIFICATE = "signing_key", "certificate"

SERVICES = (GATEWAY, EPISODES, WORKER, LEDGER, REGISTRY, ADAPTERS, INFERENCE)
SERVERS = (POSTGRES, TEMPORAL, BROKER)
OUTSIDE = (MODEL_SERVER, TOOL_SERVER)
PROCESSES = (*SERVICES, *SERVERS, *OUTSIDE)


@dataclass(frozen=True)
class Pair:
    caller: str
    called: str

    @property
    def name(self) -> str:
        return f"{self.caller}-{self.called}"


PAIRS = (
    Pair(GATEWAY, EPISODES),
    Pair(WORKER, LEDGER),
    Pair(WORKER, ADAPTERS),
    Pair(WORKER, REGISTRY),
    Pair(WORKER, INFERENCE),
    Pair(WORKER, TEMPORAL),
    Pair(WORKER, POSTGRES),
    Pair(LEDGER, POSTGRES),
    Pair(INFERENCE, MODEL_SERVER),
    Pair("everybody", BROKER),
)
VICTIMS = (*PROCESSES, SANDBOX, LOGS, SIGNING_KEY, CERTIFICATE)

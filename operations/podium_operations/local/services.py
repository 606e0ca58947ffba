import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

from podium_operations.local.keys import SigningKeys

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# Its values that put what was written on spans.
ON_SPANS = ("true", "span_only", "span_and_event")
# The exporters read these themselves.
INHERITED = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES")


def telemetry_settings(folder: Path, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    if not (endpoint := given.get(ENDPOINT)):
        return {"telemetry__mode": "file", "telemetry__folder": str(folder)}
    metrics = given.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
    return {
        "telemetry__mode": "otlp",
        "telemetry__otlp_endpoint": endpoint,
        "telemetry__otlp_protocol": given.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        "telemetry__otlp_metrics": str(metrics).lower(),
        "telemetry__log_prompts": str(given.get(CONTENT, "").lower() in ON_SPANS).lower(),
    }


LOOPBACK = "127.0.0.1"
ENGINE_SECRET = "engine_api_key"  # noqa: S105  its name
ADAPTERS_PREFIX = "TOOL_ADAPTERS_"


@dataclass(frozen=True)
class Engine:
    base_url: str
    model: str
    sku: str
    api_key: str = ""
    policy_store: Path | None = None
    prompt_mode: str = ""
    is_bundled: bool = False
    """True where it serves the model that comes with Podium."""


@dataclass(frozen=True)
class Surroundings:
    ports: dict[str, int]
    dsn: dict[str, str]
    keys: SigningKeys
    engine: Engine
    mcp_servers_folder: Path
    telemetry_folder: Path | None
    extra: dict[str, dict[str, str]] = field(default_factory=dict)
    certificate: dict[str, str] = field(default_factory=dict)
    """Files of the certificate that gates ask for; none where there are no gates."""

    @property
    def kafka(self) -> dict[str, str]:
        security = {"security_protocol": "SSL"} if self.certificate else {}
        return {"bootstrap": self.target("kafka"), **security, **self.certificate}

    @property
    def temporal(self) -> dict[str, str]:
        return {
            **({"tls": "true"} if self.certificate else {}),
            **self.certificate,
            "payload_keys_file": str(self.keys.payload_keys_file),
        }

    def target(self, service: str) -> str:
        return f"{LOOPBACK}:{self.ports[service]}"


@dataclass(frozen=True)
class ServiceProcess:
    name: str
    module: str
    environment: dict[str, str]
    port: int


def service_processes(around: Surroundings) -> list[ServiceProcess]:
    """Every service, dependencies first."""
    return [
        _grpc_service(around, "cost_ledger", _ledger(around)),
        _grpc_service(around, "tool_registry", _registry(around)),
        _grpc_service(around, "tool_adapters", _adapters(around)),
        _grpc_service(around, "orchestrator_inference", _orchestrator(around)),
        _grpc_service(around, "episodes", _episodes(around)),
        _worker(around),
        _gateway(around),
    ]


def _grpc_service(around: Surroundings, name: str, settings: dict[str, str]) -> ServiceProcess:
    port = around.ports[name]
    common = {
        "port": str(port),
        "host": LOOPBACK,
        "verify_keys_file": str(around.keys.verify_keys_file),
    }
    return _process(around, (name, name), common | settings, port)


def _worker(around: Surroundings) -> ServiceProcess:
    port = around.ports["episodes_worker"]
    settings = _database(around, "episodes") | {
        "health_port": str(port),
        "temporal_target": around.target("temporal"),
        "orchestrator_inference_target": around.target("orchestrator_inference"),
        "tool_adapters_target": around.target("tool_adapters"),
        "cost_ledger_target": around.target("cost_ledger"),
        "tool_registry_target": around.target("tool_registry"),
        **_nested("kafka", around.kafka),
        **_nested("temporal", around.temporal),
        **_signing(around, "episode-worker"),
    }
    return _process(around, ("episodes_worker", "episodes.worker"), settings, port)


def _gateway(around: Surroundings) -> ServiceProcess:
    services = (
        "episodes",
        "tool_registry",
        "cost_ledger",
        "tool_adapters",
        "orchestrator_inference",
    )
    settings = _database(around, "gateway") | {
        "host": LOOPBACK,
        "port": str(around.ports["gateway"]),
        **{f"{name}_target": around.target(name) for name in services},
        "signing_key_file": str(around.keys.private_key_file("gateway")),
    }
    return _process(around, ("gateway", "gateway"), settings, around.ports["gateway"])


def _ledger(around: Surroundings) -> dict[str, str]:
    # Migrations run as the owner; what serves owns nothing and so cannot rewrite history.
    service = make_url(around.dsn["cost_ledger"]).set(username="cost_ledger_service")
    return {
        "database_url": service.render_as_string(hide_password=False),
        "owner_database_url": around.dsn["cost_ledger"],
        "anchor_key_file": str(around.keys.anchor_key_file),
        **_nested("kafka", around.kafka),
    }


def _registry(around: Surroundings) -> dict[str, str]:
    return _database(around, "tool_registry") | {
        "cost_ledger_target": around.target("cost_ledger"),
        "episodes_target": around.target("episodes"),
    }


def _adapters(around: Surroundings) -> dict[str, str]:
    settings = _database(around, "tool_adapters") | {
        "tool_registry_target": around.target("tool_registry"),
        "cost_ledger_target": around.target("cost_ledger"),
        "mcp_servers_folder": str(around.mcp_servers_folder),
        "master_keys_file": str(around.keys.master_keys_file),
        **_signing(around, "tool-adapters"),
    }
    # The engine is a tool as well, and tools name secrets instead of holding them.
    key = around.engine.api_key
    settings |= {f"secret_{ENGINE_SECRET}": key} if key else {}
    return settings | _chosen_for_adapters()


def _chosen_for_adapters() -> dict[str, str]:
    """The user's own settings: secrets of tools, hosts they may reach."""
    return {
        name.removeprefix(ADAPTERS_PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(ADAPTERS_PREFIX)
    }


def _orchestrator(around: Surroundings) -> dict[str, str]:
    engine = around.engine
    settings = {
        "engine_base_url": engine.base_url,
        "default_model": engine.model,
        "model_sku": engine.sku,
    }
    settings |= {"policy_store": str(engine.policy_store)} if engine.policy_store else {}
    settings |= {"prompt_mode": engine.prompt_mode} if engine.prompt_mode else {}
    return settings | ({"engine_api_key": engine.api_key} if engine.api_key else {})


def _episodes(around: Surroundings) -> dict[str, str]:
    return _database(around, "episodes") | {
        "temporal_target": around.target("temporal"),
        "tool_registry_target": around.target("tool_registry"),
        "orchestrator_inference_target": around.target("orchestrator_inference"),
        "cost_ledger_target": around.target("cost_ledger"),
        "tool_adapters_target": around.target("tool_adapters"),
        **_nested("temporal", around.temporal),
        **_signing(around, "episodes"),
    }


def _nested(name: str, settings: dict[str, str]) -> dict[str, str]:
    return {f"{name}__{key}": value for key, value in settings.items()}


def _database(around: Surroundings, name: str) -> dict[str, str]:
    return {"database_url": around.dsn[name]}


def _signing(around: Surroundings, signer: str) -> dict[str, str]:
    return {
        "signing_key__key_id": signer,
        "signing_key__private_key_file": str(around.keys.private_key_file(signer)),
    }


def _process(
    around: Surroundings,
    name_and_module: tuple[str, str],
    settings: dict[str, str],
    port: int,
) -> ServiceProcess:
    name, module = name_and_module
    if around.telemetry_folder is not None:
        settings |= telemetry_settings(around.telemetry_folder)
    settings |= around.extra.get(name, {})
    environment = {f"{name}_{key}".upper(): value for key, value in settings.items()}
    return ServiceProcess(name, module, environment, port)

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from episodes.workflows.settings import TemporalSettings
from podium_kit.rpc.settings import ServerSettings, SigningKey, TlsFiles
from podium_kit.stream import KafkaSettings
from podium_kit.telemetry import TelemetrySettings

DEFAULT_TASK_QUEUE = "episodes"
TOOLS_OFFERED_MAX = 8
GIB = 1024**3


class ServerConfig(ServerSettings):
    """The episodes server: starts, watches, cancels and lists episodes."""

    model_config = SettingsConfigDict(
        env_prefix="EPISODES_", env_nested_delimiter="__", frozen=True
    )

    database_url: str = Field(description="SQLAlchemy URL of its own database")
    temporal_target: str = Field(description="Temporal frontend, host:port")
    temporal_namespace: str = Field("default", description="Temporal namespace")
    temporal: TemporalSettings = Field(
        default_factory=TemporalSettings, description="temporal__tls, temporal__authority, ..."
    )
    task_queue: str = Field(DEFAULT_TASK_QUEUE, description="Temporal task queue of the worker")
    tool_registry_target: str = Field(description="gRPC target of tool-registry")
    orchestrator_inference_target: str = Field(description="gRPC target of orchestrator-inference")
    cost_ledger_target: str = Field(description="gRPC target of cost-ledger")
    tool_adapters_target: str = Field(description="gRPC target of tool-adapters")
    signing_key: SigningKey = Field(
        description="key the server signs the calls with that it makes for direct calls"
    )
    max_concurrent_calls: int = Field(
        400, ge=0, description="most direct calls that this process makes; workers make the others"
    )
    tools_offered_max: int = Field(
        TOOLS_OFFERED_MAX,
        ge=0,
        description="tools offered to an episode that names none, those that fit its task best;"
        " find_tools finds others; 0 offers all",
    )
    files_per_tenant: int = Field(
        100_000, ge=0, description="images and PDF files that a tenant's episodes keep at most"
    )
    file_bytes_per_tenant: int = Field(10 * GIB, ge=0, description="bytes of those files at most")
    evaluations_per_tenant: int = Field(
        1_000, ge=0, description="runs of evaluations that a tenant stores at most"
    )
    answer_timeout_s: float = Field(10.0, description="seconds another service gets to answer")
    temporal_timeout_s: float = Field(5.0, description="seconds Temporal gets to answer")


class WorkerConfig(BaseSettings):
    """The episode worker: takes episodes, runs workflows, publishes trajectories."""

    model_config = SettingsConfigDict(
        env_prefix="EPISODES_WORKER_", env_nested_delimiter="__", frozen=True
    )

    host: str = Field("127.0.0.1", description="address the probes' port listens on")
    health_port: int | None = Field(None, description="plaintext gRPC port for probes")
    database_url: str = Field(description="SQLAlchemy URL of the episodes database")
    temporal_target: str = Field(description="Temporal frontend, host:port")
    temporal_namespace: str = Field("default", description="Temporal namespace")
    temporal: TemporalSettings = Field(
        default_factory=TemporalSettings, description="temporal__tls, temporal__authority, ..."
    )
    task_queue: str = Field(DEFAULT_TASK_QUEUE, description="Temporal task queue of the worker")
    orchestrator_inference_target: str = Field(description="gRPC target of orchestrator-inference")
    tool_adapters_target: str = Field(description="gRPC target of tool-adapters")
    cost_ledger_target: str = Field(description="gRPC target of cost-ledger")
    tool_registry_target: str = Field(description="gRPC target of tool-registry, for policies")
    tools_offered_max: int = Field(
        TOOLS_OFFERED_MAX,
        ge=0,
        description="as EPISODES_TOOLS_OFFERED_MAX, for episodes that others call",
    )
    answer_timeout_s: float = Field(
        30.0, description="seconds another service gets to answer before it is asked again"
    )
    temporal_timeout_s: float = Field(5.0, description="seconds Temporal gets to answer")
    signing_key: SigningKey = Field(description="key the worker signs its calls with")
    kafka: KafkaSettings = Field(description="where trajectories go: kafka__bootstrap, ...")
    trajectory_topic: str = Field("trajectories.v1", description="topic of trajectories")
    reconcile_interval_s: float = Field(30.0, description="seconds between reconciliations")
    keep_episodes_days: int = Field(
        0,
        ge=0,
        description="days until an ended episode is forgotten, with steps and trajectory; 0 keeps "
        "all. Its costs stay in the ledger",
    )
    keep_evaluations_days: int = Field(
        0,
        ge=0,
        description="days until an ended run of an evaluation is forgotten, with its trials and"
        " items; 0 keeps all",
    )
    prompt_tokens_max: int = Field(32_768, description="most prompt tokens held before a call")
    max_concurrent_turns: int = Field(
        400,
        description="most leased episodes at once in this process; as many direct calls, and as"
        " many activities of workflows",
    )
    long_after_s: float = Field(
        30.0,
        ge=0,
        description="age of an episode from which a Temporal workflow continues it after its turn",
    )
    long_turns: int = Field(
        12, ge=1, description="turns after which a Temporal workflow continues an episode"
    )
    # Temporal's worker controller sets these two by their own names, without our prefix.
    deployment_name: str = Field(
        "",
        validation_alias="TEMPORAL_DEPLOYMENT_NAME",
        description="TEMPORAL_DEPLOYMENT_NAME: worker deployment; unset versions nothing",
    )
    build_id: str = Field(
        "",
        validation_alias="TEMPORAL_WORKER_BUILD_ID",
        description="TEMPORAL_WORKER_BUILD_ID: this build of the worker",
    )
    graceful_shutdown_s: float = Field(5.0, description="seconds turns get to finish")
    tls: TlsFiles | None = Field(None, description="mutual TLS; plaintext when unset")
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from podium_kit.rpc.settings import TlsFiles
from podium_kit.telemetry import TelemetrySettings

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class PolicyEnginesSettings(BaseSettings):
    """policy-engines: InferenceServices of merged policy versions."""

    model_config = SettingsConfigDict(
        env_prefix="POLICY_ENGINES_", env_nested_delimiter="__", frozen=True
    )

    host: str = Field("127.0.0.1", description="address the probes' port listens on")
    health_port: int | None = Field(None, description="plaintext gRPC port for probes")
    policy_store: Path = Field(description="folder of the trained policy versions")
    namespace: str = Field(pattern=DNS_LABEL, description="namespace of the engines")
    kind: Literal["InferenceService", "LLMInferenceService"] = Field(
        "InferenceService", description="what the engines are"
    )
    blueprint: str = Field(
        pattern=DNS_LABEL, description="the base model's service, which the engines are copies of"
    )
    claim: str = Field(pattern=DNS_LABEL, description="claim of the versions, as engines mount it")
    component: str = Field(
        "policy-engine",
        pattern=DNS_LABEL,
        description="label app.kubernetes.io/component of their pods",
    )
    newest: int = Field(1, ge=1, description="newest merged versions that have an engine")
    retire_after_s: float = Field(
        3600.0, ge=0, description="seconds an unwanted engine stays; the longest episode"
    )
    check_s: float = Field(10.0, ge=1, le=30, description="seconds between looks at the store")
    tls: TlsFiles | None = Field(None, description="unused: it is called by nobody")
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

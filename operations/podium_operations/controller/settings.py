from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The watched namespaces, and the platform of their objects."""

    model_config = SettingsConfigDict(env_prefix="CONTROLLER_", frozen=True, extra="ignore")

    gateway_target: str = Field(description="URL of the gateway")
    gateway_authority: Path | None = Field(
        None, description="PEM file of what signs its certificate; unset means the system's"
    )
    namespaces: tuple[str, ...] = Field(min_length=1, description="JSON list of what is watched")
    key_secret: str = Field(
        "podium-tenant", description="Secret with the API key of the namespace's tenant"
    )
    key_name: str = Field("api-key", description="key in that Secret")
    drift_interval_s: float = Field(60.0, gt=0, description="how often differences are looked for")
    health_port: int = Field(8086, description="port of GET /healthz")

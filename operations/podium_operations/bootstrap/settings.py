from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from episodes.workflows.settings import TemporalSettings
from podium_kit.client.errors import UsageError
from podium_kit.stream.settings import KafkaSettings


class Settings(BaseSettings):
    """The addresses of the servers, as every component of the chart gets them."""

    model_config = SettingsConfigDict(
        env_prefix="BOOTSTRAP_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )

    plan_file: Path = Field(description="YAML that says what to make")
    temporal_target: str = Field("", description="host:port of Temporal's frontend")
    temporal_namespace: str = Field("default", description="Temporal namespace of Podium")
    temporal: TemporalSettings = Field(
        default_factory=TemporalSettings, description="temporal__tls, temporal__authority, ..."
    )
    kafka: KafkaSettings | None = Field(None, description="kafka__bootstrap, ...")
    gateway_target: str = Field("", description="URL of the gateway")
    gateway_authority: Path | None = Field(
        None, description="PEM file of what signs its certificate, there once it is made"
    )


class Part(BaseModel):
    """A part of the plan: an unknown field is a mistake of the chart."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SecretKey(Part):
    secret: str
    key: str


class ServiceRole(Part):
    """A role of a service, its database, and where the URL of both is kept."""

    role: str
    database: str
    owns: bool = True
    url: SecretKey
    external: bool = False
    """True where an operator fetches the Secret, so that it is awaited and never written."""


class Databases(Part):
    admin: SecretKey
    """The administrator's URL, read only where something is missing."""
    roles: list[ServiceRole]


class Holder(Part):
    secret: str
    dns_names: list[str]
    uri: str

    @property
    def names(self) -> list[x509.GeneralName]:
        dns_names = [x509.DNSName(name) for name in self.dns_names]
        return [*dns_names, x509.UniformResourceIdentifier(self.uri)]


class Certificates(Part):
    """One for each component, from an authority of the release's own."""

    authority_secret: str
    lasting_s: int = Field(gt=0)
    renewed_before_s: int = Field(gt=0)
    holders: list[Holder]

    @property
    def lasting(self) -> timedelta:
        return timedelta(seconds=self.lasting_s)

    @property
    def renewed_before(self) -> timedelta:
        return timedelta(seconds=self.renewed_before_s)


class Topic(Part):
    topic: str
    partitions: int
    replicas: int
    min_in_sync_replicas: int
    retention_hours: int
    max_message_bytes: int


class Contents(Part):
    """The platform's initial contents; documents as the podium command reads them."""

    tenant_key_secret: str
    platform_key_secret: str
    """Apart from the tenant's: the controller and people of the tenant read that one."""
    gateway_database: SecretKey
    tenant: str
    """Empty makes no tenant."""
    bundled_prices: bool
    bundled_tools: bool
    library: bool
    runs_code: bool
    """True where code can run: a tool that cannot be called is not registered."""
    bundled_tools_map: str
    """ConfigMap of the bundled tools as they were registered last."""
    prices: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    """Experts of the chart; one that is no longer here is deprecated."""
    policies: list[dict[str, Any]]
    budgets: list[dict[str, Any]]
    model_sku: str


class Plan(Part):
    """Everything the Job makes; a part that is off is None or empty."""

    release: str
    namespace: str
    identity_secret: str = ""
    certificates: Certificates | None = None
    databases: Databases | None = None
    temporal_retention_hours: int = 0
    topics: list[Topic] = []
    contents: Contents | None = None


def read_plan(path: Path) -> Plan:
    try:
        values: Mapping[str, Any] = yaml.safe_load(path.read_text())
        return Plan(**values)
    except (OSError, yaml.YAMLError, TypeError, ValidationError) as error:
        raise UsageError(
            f"{path} is no plan: {error}", "use the chart and the image of one release"
        ) from error

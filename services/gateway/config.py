from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.limits.models import TenantLimits
from gateway.oidc.issuers import OidcIssuer
from podium_kit.rpc.settings import SigningKey, TlsFiles
from podium_kit.telemetry import TelemetrySettings

MIB = 1024 * 1024
MIGRATIONS = Path(__file__).parent / "migrations"


class DatabaseSettings(BaseSettings):
    """The database of API keys, as the key commands need it."""

    model_config = SettingsConfigDict(
        env_prefix="GATEWAY_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )

    database_url: str = Field(description="postgresql://user@host/database")


class GatewaySettings(DatabaseSettings):
    """The public HTTP API of Podium."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(description="HTTP port")
    signing_key_file: Path = Field(description="PEM private key of internal tokens (Ed25519)")
    signing_key_id: str = Field("gateway", description="id the services know that key by")
    episodes_target: str = Field(description="host:port of episodes")
    tool_registry_target: str = Field(description="host:port of tool-registry")
    cost_ledger_target: str = Field(description="host:port of cost-ledger")
    tool_adapters_target: str = Field(description="host:port of tool-adapters")
    orchestrator_inference_target: str = Field(description="host:port of orchestrator-inference")
    tls: TlsFiles | None = Field(
        None, description="TLS on the port, mutual TLS to the services; plaintext if unset"
    )
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    answer_timeout_s: float = Field(30.0, gt=0, description="longest wait for a service's answer")
    database_timeout_s: float = Field(10.0, gt=0, description="longest wait for the database")
    # An OpenAPI document of 20 MiB, which the registry takes, with its quotes escaped.
    body_bytes_max: int = Field(32 * MIB, gt=0, description="a larger request body is rejected")
    body_timeout_s: float = Field(30.0, gt=0, description="a slower request body is rejected")
    oidc_issuers: tuple[OidcIssuer, ...] = Field((), description="JSON list, see docs/tenancy.md")
    public_url: str = Field("", description="how clients reach it; as they are connected if unset")
    requests_per_s: float = Field(500.0, gt=0, description="of a tenant without limits of its own")
    request_burst: int = Field(2_000, gt=0, description="requests it may send at once")
    request_concurrency: int = Field(512, gt=0, description="requests it may have open")
    running_episodes: int = Field(
        10_000, gt=0, description="episodes, and as many direct calls, it may run at once"
    )
    limits_cache_s: float = Field(5.0, ge=0, description="how long limits are remembered")
    chat_wait_s: float = Field(3_600.0, gt=0, description="longest wait for a chat answer")
    cancel_on_disconnect: bool = Field(True, description="cancel a chat whose client went away")
    # Longer than load balancers (60 s at many) and clients keep theirs: a proxy that sends a
    # request on a connection that is closed at that moment gets a reset.
    idle_connection_s: float = Field(75.0, gt=0, description="how long idle connections are kept")
    keepalive_s: float = Field(15.0, gt=0, description="silence after which a stream gets a ping")
    key_cache_s: float = Field(5.0, ge=0, description="how long a revoked key may still work")
    catalogue_cache_s: float = Field(
        5.0, ge=0, description="how long the names that requests choose from are kept"
    )
    cors_origins: tuple[str, ...] = Field((), description="JSON list of origins; empty: no CORS")
    drain_wait_s: float = Field(0.0, ge=0, description="seconds between not ready and the drain")
    drain_grace_s: float = Field(30.0, ge=0, description="seconds open requests get to finish")

    def default_limits(self) -> TenantLimits:
        return TenantLimits(
            self.requests_per_s,
            self.request_burst,
            self.request_concurrency,
            self.running_episodes,
        )

    def signing_key(self) -> SigningKey:
        return SigningKey(key_id=self.signing_key_id, private_key_file=self.signing_key_file)

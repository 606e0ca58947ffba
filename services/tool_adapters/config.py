from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_settings import SettingsConfigDict

from podium_kit.rpc.settings import ServerSettings, SigningKey

MIB = 1024 * 1024
SECRET_PREFIX = "TOOL_ADAPTERS_SECRET_"  # noqa: S105  a name


class EmbeddingsSettings(BaseModel, frozen=True):
    """The server of vectors."""

    base_url: str = Field(description="OpenAI-compatible URL, up to and including /v1")
    model: str = Field(description="name of the embedding model there")
    secret: str = Field("", description="name of the platform's secret with the API key")


class ToolAdaptersSettings(ServerSettings):
    """The tool adapters: call tools, and keep corpora.

    Secrets that tools name are TOOL_ADAPTERS_SECRET_<NAME>, or for a tenant's own tools
    TOOL_ADAPTERS_SECRET_<TENANT>__<NAME>, or files in the secrets folder.
    """

    model_config = SettingsConfigDict(
        env_prefix="TOOL_ADAPTERS_", env_nested_delimiter="__", frozen=True
    )
    variables_beside: ClassVar[tuple[str, ...]] = (SECRET_PREFIX,)

    database_url: str = Field(description="SQLAlchemy URL of its own database")
    tool_registry_target: str = Field(description="gRPC target of tool-registry")
    cost_ledger_target: str = Field(
        "",
        description="gRPC target of cost-ledger, which charges vectors and guardrails",
    )
    signing_key: SigningKey = Field(description="key that signs reports of measured behaviour")
    facts_interval_s: float = Field(5.0, gt=0, description="seconds between those reports")
    secrets_folder: Path | None = Field(None, description="folder of mounted secrets")
    master_keys_file: Path | None = Field(
        None, description="file of the keys that encrypt stored secrets; see the README"
    )
    master_key_check_s: float = Field(
        60.0, gt=0, description="seconds after which secrets are taken under a new master key"
    )
    allowed_hosts: frozenset[str] = Field(
        frozenset(),
        description="JSON list of private hosts that tools may reach: tenant/host for one tenant's,"
        " host for all",
    )
    allow_private_networks: bool = Field(
        False, description="let tenants' tools reach private addresses"
    )
    mcp_servers_folder: Path | None = Field(
        None, description="folder of MCP servers that tools may name, one <name>.yaml each"
    )
    mcp_sessions_max: int = Field(500, ge=1, description="MCP sessions open at once")
    mcp_idle_timeout_s: float = Field(900.0, gt=0, description="seconds an unused session is kept")
    mcp_follow_interval_s: float = Field(
        5.0, gt=0, description="seconds between renewals of what this process follows"
    )
    mcp_relist_s: float = Field(
        30.0, gt=0, description="seconds after which a followed MCP server is asked by itself"
    )
    response_cache_bytes_per_tenant: int = Field(
        256 * 1024 * 1024,
        ge=0,
        description="most bytes of a tenant's cached answers, whatever its policies allow",
    )
    effects_kept_days: float = Field(
        30.0, gt=0, description="days for which a repeated effectful call gets its first answer"
    )
    prompts_folder: Path | None = Field(
        None, description="folder of templates <role>/system.jinja and <role>/question.jinja"
    )
    model_families_file: Path | None = Field(
        None, description="YAML of what chat models accept, in place of the shipped one"
    )
    provider_concurrency_max: int = Field(
        64, ge=1, description="requests in flight at each provider of language models"
    )
    own_servers: frozenset[str] = Field(
        frozenset(),
        description="JSON list of hosts of model servers of the platform's own: a call waits while"
        " none of their pods runs, and is counted by the second as well",
    )
    embeddings: EmbeddingsSettings | None = Field(
        None, description="embedding model (BASE_URL, MODEL, SECRET); without it words alone count"
    )
    workspace_bytes_max: int = Field(
        36 * MIB, gt=0, le=36 * MIB, description="bytes that code of one episode keeps, packed"
    )
    workspaces_bytes_per_tenant: int = Field(
        1024 * MIB, gt=0, description="bytes that code of all open episodes of a tenant keeps"
    )
    workspaces_kept_days: float = Field(
        7.0, gt=0, description="days after its last call for which an episode's files are kept"
    )
    corpora_bytes_per_tenant: int = Field(
        256 * MIB, gt=0, description="bytes that all corpora of a tenant hold, with their vectors"
    )
    sandbox_target: str = Field(
        "", description="gRPC target of the sandbox service; unset means sandboxes beside us"
    )
    code_runs_max: int = Field(
        32,
        ge=1,
        description="runs of code at once, of all tools; a free place goes to the tenant that has"
        " the fewest",
    )
    warm_sandboxes: int = Field(
        2, ge=0, description="sandboxes started ahead, so that code need not wait for one"
    )

    @model_validator(mode="after")
    def _vectors_are_charged(self) -> Self:
        if self.embeddings is not None and not self.cost_ledger_target:
            raise ValueError("vectors of the embedding model are charged: set cost_ledger_target")
        return self

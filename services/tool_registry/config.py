from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from podium_kit.rpc.settings import ServerSettings


class ToolRegistrySettings(ServerSettings):
    """The tool registry: tools, policies and toolsets."""

    model_config = SettingsConfigDict(
        env_prefix="TOOL_REGISTRY_", env_nested_delimiter="__", frozen=True
    )

    database_url: str = Field(description="SQLAlchemy URL of its own database")
    cost_ledger_target: str = Field(description="gRPC target of cost-ledger, for prices")
    price_cache_s: float = Field(5.0, ge=0, description="how long a tenant's known prices are kept")
    retention_days: float = Field(
        90.0, gt=0, description="days for which a deleted tool stays readable by version"
    )
    episodes_target: str | None = Field(
        None, description="gRPC target of episodes, for dry runs, reports, descriptions and ranking"
    )
    past_tasks_cache_s: float = Field(
        60.0, ge=0, description="how long a tenant's past tasks are kept, which tools are ranked by"
    )
    embeddings_base_url: str | None = Field(
        None,
        description="OpenAI-compatible API that tools are ranked with, up to and with /v1; unset"
        " ranks with static embeddings in this process",
    )
    embeddings_model: str = Field("text-embedding-3-small", description="its model")
    embeddings_api_key: SecretStr | None = Field(None, description="its API key")
    model_families_file: Path | None = Field(
        None, description="YAML of what chat models accept, in place of the shipped one"
    )
    llm_input_tokens_max: int = Field(
        32_768, gt=0, description="input tokens of the most expensive llm call, for price ceilings"
    )

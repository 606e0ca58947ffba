"""Settings of the cost ledger."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from rpckit.settings import ServerSettings


class Settings(ServerSettings):
    """The cost ledger: prices, holds, journal, budgets and reports over gRPC."""

    model_config = SettingsConfigDict(
        env_prefix="COST_LEDGER_", env_nested_delimiter="__", frozen=True
    )

    database_url: str = Field(description="SQLAlchemy URL of its own database")
    sweep_interval_s: float = Field(5.0, gt=0, description="seconds between two sweeps")

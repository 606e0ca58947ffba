from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from podium_kit.rpc.settings import ServerSettings
from podium_kit.stream import KafkaSettings


class CostLedgerSettings(ServerSettings):
    """The cost ledger: prices, holds, journal, budgets and reports over gRPC."""

    model_config = SettingsConfigDict(
        env_prefix="COST_LEDGER_", env_nested_delimiter="__", frozen=True
    )

    database_url: str = Field(
        description="SQLAlchemy URL of its own database, as the role cost_ledger_service"
    )
    owner_database_url: str = Field(
        "",
        description="the same as the schema's owner, to migrate at start; unset migrates nothing",
    )
    kafka: KafkaSettings | None = Field(
        None, description="where alerts go: kafka__bootstrap, ...; unset keeps them here"
    )
    alert_topic: str = Field("ledger.alerts.v1", description="topic of budget alerts")
    rollup_interval_s: float = Field(
        10.0, gt=0, description="seconds between two additions to the daily sums"
    )
    anchor_key_file: Path | None = Field(
        None,
        description="Ed25519 private key in PEM that signs the daily roots; unset signs none",
    )
    sweep_interval_s: float = Field(5.0, gt=0, description="seconds between two sweeps")

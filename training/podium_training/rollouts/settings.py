from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from episodes.workflows.settings import TemporalSettings


class RolloutSettings(BaseSettings):
    """Settings of `podium train submit` and `worker`, from the environment."""

    model_config = SettingsConfigDict(
        env_prefix="PODIUM_TRAIN_", env_nested_delimiter="__", frozen=True
    )

    temporal_target: str = Field("", description="host:port; unset: that of `podium up`")
    temporal_namespace: str = Field("default", description="its namespace")
    task_queue: str = Field("rollouts", description="where workers take runs from")
    temporal: TemporalSettings = Field(default_factory=TemporalSettings)

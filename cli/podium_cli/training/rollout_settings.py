"""Where runs of rollouts are kept going: Temporal, by settings or that of this machine."""

from typing import TYPE_CHECKING

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from episodes.temporal.settings import TemporalSettings
from podium_cli.errors import UsageError

if TYPE_CHECKING:
    # It reads the state of `podium up`, and nothing of that is in a pod.
    from podium_cli.target import Target


class RolloutSettings(BaseSettings):
    """Of `podium train submit` and `worker`, from the environment."""

    model_config = SettingsConfigDict(
        env_prefix="PODIUM_TRAIN_", env_nested_delimiter="__", frozen=True
    )

    temporal_target: str = Field("", description="host:port; unset: that of `podium up`")
    temporal_namespace: str = Field("default", description="its namespace")
    task_queue: str = Field("rollouts", description="where workers take runs from")
    temporal: TemporalSettings = Field(default_factory=TemporalSettings)

    def address(self, target: "Target") -> str:
        """host:port of the frontend. Raises UsageError, NotUp."""
        if self.temporal_target:
            return self.temporal_target
        if target.url is not None:
            fix = "set PODIUM_TRAIN_TEMPORAL_TARGET"
            raise UsageError(f"no Temporal named for {target.url}", fix)
        return target.state.read_connection().temporal_target

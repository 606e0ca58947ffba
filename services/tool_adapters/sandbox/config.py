from pydantic import Field
from pydantic_settings import SettingsConfigDict

from podium_kit.rpc.settings import ServerSettings


class SandboxSettings(ServerSettings):
    """The sandbox: runs code written by models. It has no secret, no database and no neighbour."""

    model_config = SettingsConfigDict(env_prefix="SANDBOX_", env_nested_delimiter="__", frozen=True)

    warm_sandboxes: int = Field(
        2, ge=0, description="sandboxes started ahead, so that code need not wait for one"
    )

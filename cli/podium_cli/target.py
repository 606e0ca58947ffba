from dataclasses import dataclass
from pathlib import Path

from podium_kit.client.errors import UsageError
from podium_operations.local.state import StateFolder, default_state_dir


@dataclass(frozen=True)
class Target:
    """A platform as options and environment name it; the state folder fills unset parts."""

    url: str | None
    api_key: str | None
    state_dir: Path | None

    @property
    def state(self) -> StateFolder:
        return StateFolder(self.state_dir or default_state_dir())

    @property
    def allowed_hosts(self) -> list[str]:
        """Private hosts that tools may reach; none are known of a platform elsewhere."""
        return [] if self.url else self.state.read_connection().allowed_hosts

    def address(self, admin: bool = False) -> tuple[str, str]:
        """URL and API key; `admin` takes the key that may change what every tenant sees.

        Raises NotUp, UsageError.
        """
        if self.url is None:
            connection = self.state.read_connection()
            stored = connection.admin_key if admin else connection.api_key
            return connection.gateway_url, self.api_key or stored
        if self.api_key is None:
            raise UsageError(f"no API key for {self.url}", "give --api-key or PODIUM_API_KEY")
        return self.url.rstrip("/"), self.api_key

"""Settings of the client: the platform's URL, the key and the timeouts."""

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from podium_client.errors import ConfigurationError
from podium_client.retries import RetryPolicy

LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True)
class Settings:
    """Settings of a client."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float
    retries: RetryPolicy

    @classmethod
    def of(
        cls, base_url: str | None, api_key: str | None, timeout_s: float, retries: RetryPolicy
    ) -> "Settings":
        """Fills unset values from PODIUM_URL and PODIUM_API_KEY. Raises ConfigurationError."""
        url = base_url or os.environ.get("PODIUM_URL", "")
        key = api_key or os.environ.get("PODIUM_API_KEY", "")
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(
                "no platform is named: give base_url, or set PODIUM_URL, like http://127.0.0.1:8080"
            )
        if not key:
            raise ConfigurationError("no API key: give api_key, or set PODIUM_API_KEY")
        # The base URL of OpenAI's clients ends so.
        url = url.rstrip("/").removesuffix("/v1")
        return cls(url, key, timeout_s, retries)

    @property
    def trust_env(self) -> bool:
        """A proxy for the world is none for this machine."""
        return urlsplit(self.base_url).hostname not in LOOPBACK

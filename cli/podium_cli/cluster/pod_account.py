"""The cluster a pod runs in, asked as the pod's service account."""

import os
import ssl
from pathlib import Path
from typing import Any

import httpx

from podium_cli.cluster.discovery import ClusterUnreachable, Discovery

# Where Kubernetes puts an account's token and the authority of the API server.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 10.0


class PodAccount(Discovery):
    """Needs no rights: every account may read what a cluster serves (system:discovery)."""

    def __init__(self, account: Path = ACCOUNT) -> None:
        self._account = account

    async def get(self, path: str) -> dict[str, Any]:
        try:
            async with account_client(self._account) as client:
                reply = await client.get(path)
                found: dict[str, Any] = reply.raise_for_status().json()
        except (OSError, KeyError, ValueError, httpx.HTTPError) as error:
            cause = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ClusterUnreachable(
                f"the cluster does not serve its {path}: {cause}",
                "let the pod reach the API server (endpoints.kubernetes) and mount its account",
            ) from error
        return found


def account_client(account: Path = ACCOUNT) -> httpx.AsyncClient:
    """The API server, with the account's token. Raises OSError, KeyError outside of a pod."""
    return httpx.AsyncClient(
        base_url=server_url(),
        headers={"authorization": f"Bearer {(account / 'token').read_text()}"},
        verify=ssl.create_default_context(cafile=str(account / "ca.crt")),
        timeout=TIMEOUT_S,
        trust_env=False,
    )


def server_url() -> str:
    """Where the API server is, by its address. Raises KeyError outside of a pod."""
    host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"

import asyncio
import json
import os
import shutil
import ssl
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import httpx

from podium_kit.client.errors import UserError


class ClusterUnreachable(UserError):
    """No cluster answers."""


class Discovery(ABC):
    async def version(self) -> str:
        return str((await self.get("/version"))["gitVersion"])

    async def group_versions(self) -> set[str]:
        groups = (await self.get("/apis"))["groups"]
        return {each["groupVersion"] for group in groups for each in group["versions"]}

    async def kinds(self, group_version: str) -> set[str]:
        resources = (await self.get(f"/apis/{group_version}"))["resources"]
        return {resource["kind"] for resource in resources}

    @abstractmethod
    async def get(self, path: str) -> dict[str, Any]:
        """The JSON object at a path. Raises ClusterUnreachable."""


TIMEOUT = "10s"


class Kubectl(Discovery):
    """The cluster kubectl is configured for, or that of another context of it."""

    def __init__(self, context: str | None = None) -> None:
        self._options = [f"--request-timeout={TIMEOUT}"]
        self._options += [f"--context={context}"] if context else []

    async def get(self, path: str) -> dict[str, Any]:
        program = shutil.which("kubectl")
        if program is None:
            raise ClusterUnreachable("kubectl is not installed", "install kubectl 1.30 or later")
        process = await asyncio.create_subprocess_exec(
            *(program, "get", "--raw", path, *self._options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        try:
            if process.returncode != 0:
                raise ValueError(errors.decode(errors="replace").strip().splitlines()[-1:])
            found = json.loads(output)
        except ValueError as error:
            cause = "".join(error.args[0]) if process.returncode else "its answer is no JSON"
            raise ClusterUnreachable(
                f"the cluster does not serve its {path}: {cause}",
                "see that `kubectl version` works; KUBECONFIG and --context choose the cluster",
            ) from error
        if not isinstance(found, dict):
            raise ClusterUnreachable(f"{path} is no object", "is this a Kubernetes API server?")
        return found


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
    host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"

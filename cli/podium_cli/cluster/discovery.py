"""What a cluster serves, asked with kubectl, which knows every way to log in to one."""

import asyncio
import json
import shutil
from typing import Any

from podium_cli.errors import CliError

TIMEOUT = "10s"


class ClusterUnreachable(CliError):
    """kubectl is missing, or no cluster answers it."""


class Discovery:
    """The discovery API (/version, /apis) of the cluster kubectl is configured for."""

    def __init__(self, context: str | None = None) -> None:
        self._options = [f"--request-timeout={TIMEOUT}"]
        self._options += [f"--context={context}"] if context else []

    async def version(self) -> str:
        """Kubernetes' own version, for example v1.36.2. Raises ClusterUnreachable."""
        return str((await self._get("/version"))["gitVersion"])

    async def group_versions(self) -> set[str]:
        """Every served group/version. Raises ClusterUnreachable."""
        groups = (await self._get("/apis"))["groups"]
        return {each["groupVersion"] for group in groups for each in group["versions"]}

    async def kinds(self, group_version: str) -> set[str]:
        """Kinds of a served group/version. Raises ClusterUnreachable."""
        resources = (await self._get(f"/apis/{group_version}"))["resources"]
        return {resource["kind"] for resource in resources}

    async def _get(self, path: str) -> dict[str, Any]:
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
                f"the cluster does not tell its {path}: {cause}",
                "see that `kubectl version` works; KUBECONFIG and --context choose the cluster",
            ) from error
        if not isinstance(found, dict):
            raise ClusterUnreachable(f"{path} is no object", "is this a Kubernetes API server?")
        return found

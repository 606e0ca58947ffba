"""A cluster asked with kubectl, which knows every way to log in to one."""

import asyncio
import json
import shutil
from typing import Any

from podium_cli.cluster.discovery import ClusterUnreachable, Discovery

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

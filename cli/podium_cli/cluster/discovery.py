"""What a cluster serves, by the discovery API of Kubernetes (/version, /apis)."""

from abc import ABC, abstractmethod
from typing import Any

from podium_kit.client.errors import UserError


class ClusterUnreachable(UserError):
    """No cluster answers."""


class Discovery(ABC):
    """The discovery API of a cluster; subclasses know how to reach it."""

    async def version(self) -> str:
        """Kubernetes' own version, for example v1.36.2. Raises ClusterUnreachable."""
        return str((await self.get("/version"))["gitVersion"])

    async def group_versions(self) -> set[str]:
        """Every served group/version. Raises ClusterUnreachable."""
        groups = (await self.get("/apis"))["groups"]
        return {each["groupVersion"] for group in groups for each in group["versions"]}

    async def kinds(self, group_version: str) -> set[str]:
        """Kinds of a served group/version. Raises ClusterUnreachable."""
        resources = (await self.get(f"/apis/{group_version}"))["resources"]
        return {resource["kind"] for resource in resources}

    @abstractmethod
    async def get(self, path: str) -> dict[str, Any]:
        """The JSON object at a path. Raises ClusterUnreachable."""

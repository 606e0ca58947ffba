import base64
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from podium_kit.client.errors import UserError
from podium_operations.cluster.api_server import ACCOUNT, account_client


class ClusterRejected(UserError):
    """The API server does not do what it is asked."""


class ClusterObjects:
    def __init__(self, namespace: str, release: str, account: Path = ACCOUNT) -> None:
        self._path = f"/api/v1/namespaces/{namespace}"
        self._labels = {
            "app.kubernetes.io/part-of": "podium",
            "app.kubernetes.io/instance": release,
            "app.kubernetes.io/component": "bootstrap",
        }
        self._account = account

    async def secret(self, name: str) -> dict[str, str] | None:
        found = await self._read("secrets", name)
        return found and {
            key: base64.b64decode(value).decode() for key, value in found.get("data", {}).items()
        }

    async def write_secret(self, name: str, values: dict[str, str], kind: str = "Opaque") -> None:
        """Makes a Secret of that type, or adds these values to it."""
        await self._write("secrets", name, {"stringData": values}, {"type": kind})

    async def config_map(self, name: str) -> dict[str, str] | None:
        found = await self._read("configmaps", name)
        return found and found.get("data", {})

    async def write_config_map(self, name: str, values: dict[str, str]) -> None:
        await self._write("configmaps", name, {"data": values})

    async def _read(self, kind: str, name: str) -> dict[str, Any] | None:
        reply = await self._ask("GET", f"{self._path}/{kind}/{name}", None)
        found: dict[str, Any] | None = reply.json() if reply else None
        return found

    async def _write(
        self, kind: str, name: str, content: dict[str, Any], forever: dict[str, Any] | None = None
    ) -> None:
        """`forever` is what only a new object takes."""
        patched = await self._ask("PATCH", f"{self._path}/{kind}/{name}", content)
        if patched is None:
            metadata = {"name": name, "labels": self._labels}
            await self._ask(
                "POST", f"{self._path}/{kind}", {"metadata": metadata, **content, **(forever or {})}
            )

    async def _ask(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> httpx.Response | None:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            async with account_client(self._account) as client:
                reply = await client.request(
                    method, path, json=body, headers={"content-type": media}
                )
        except (OSError, KeyError, ValueError, httpx.HTTPError) as error:
            raise ClusterRejected(
                f"the API server does not answer {method} {path}: {error or type(error).__name__}",
                "let the Job reach it: endpoints.kubernetes.ports and .peers",
            ) from error
        if reply.status_code == HTTPStatus.NOT_FOUND and method != "POST":
            return None
        if not reply.is_success:
            raise ClusterRejected(
                f"the API server rejects {method} {path}: {_message(reply)}",
                "the chart's Role of the Job allows it: see who changed that",
            )
        return reply


def _message(reply: httpx.Response) -> str:
    try:
        return str(reply.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {reply.status_code}"

"""Secrets that tools use by name: secret://NAME, or secret://user/NAME of the calling user."""

from collections.abc import Sequence

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport, required
from podium_client.models import (
    DeleteSecretResponse,
    DeleteUserSecretResponse,
    ListSecretsResponse,
    ListUserSecretsResponse,
    PutSecretRequest,
    PutSecretResponse,
    PutUserSecretRequest,
    PutUserSecretResponse,
    Secret,
)
from podium_client.wire import path

SECRET, USER_SECRET = "/v1/secrets/{name}", "/v1/user-secrets/{name}"


class AsyncSecrets:
    """Values go in and never come out. The tenant's are for its admins, `..._mine` for all."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def put(self, name: str, value: str) -> Secret:
        """Stores one, or replaces its value."""
        body = PutSecretRequest(value=value)
        address = path(SECRET, name=name)
        reply = await self._transport.call("PUT", address, PutSecretResponse, body=body)
        return required(reply.secret)

    def list(self, *, page_size: int = 0) -> AsyncPages[Secret]:
        """Lists secrets in the order of their names."""
        return self._transport.pages(
            "/v1/secrets",
            ListSecretsResponse,
            lambda page: (page.secrets, page.next_page_token),
            {"page_size": page_size},
        )

    async def delete(self, name: str) -> None:
        """Tools that name it fail from now on."""
        await self._transport.call("DELETE", path(SECRET, name=name), DeleteSecretResponse)

    async def put_mine(self, name: str, value: str, hosts: Sequence[str]) -> Secret:
        """Stores one of the caller's own; its value goes to these hosts alone."""
        body = PutUserSecretRequest(value=value, hosts=list(hosts))
        address = path(USER_SECRET, name=name)
        reply = await self._transport.call("PUT", address, PutUserSecretResponse, body=body)
        return required(reply.secret)

    def list_mine(self, *, page_size: int = 0) -> AsyncPages[Secret]:
        """Lists the caller's secrets in the order of their names."""
        return self._transport.pages(
            "/v1/user-secrets",
            ListUserSecretsResponse,
            lambda page: (page.secrets, page.next_page_token),
            {"page_size": page_size},
        )

    async def delete_mine(self, name: str) -> None:
        await self._transport.call("DELETE", path(USER_SECRET, name=name), DeleteUserSecretResponse)

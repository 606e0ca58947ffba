# Written by `make sdk` from podium_client/_async; do not edit.
"""Secrets that tools use by name: secret://NAME, or secret://user/NAME of the calling user."""

from collections.abc import Sequence

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
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


class Secrets:
    """Values go in and never come out. The tenant's are for its admins, `..._mine` for all."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, name: str, value: str) -> Secret:
        """Stores one, or replaces its value."""
        body = PutSecretRequest(value=value)
        address = path(SECRET, name=name)
        reply = self._transport.call("PUT", address, PutSecretResponse, body=body)
        return required(reply.secret)

    def list(self, *, page_size: int = 0) -> Pages[Secret]:
        """Lists secrets in the order of their names."""
        return self._transport.pages(
            "/v1/secrets",
            ListSecretsResponse,
            lambda page: (page.secrets, page.next_page_token),
            {"page_size": page_size},
        )

    def delete(self, name: str) -> None:
        """Tools that name it fail from now on."""
        self._transport.call("DELETE", path(SECRET, name=name), DeleteSecretResponse)

    def put_mine(self, name: str, value: str, hosts: Sequence[str]) -> Secret:
        """Stores one of the caller's own; its value goes to these hosts alone."""
        body = PutUserSecretRequest(value=value, hosts=list(hosts))
        address = path(USER_SECRET, name=name)
        reply = self._transport.call("PUT", address, PutUserSecretResponse, body=body)
        return required(reply.secret)

    def list_mine(self, *, page_size: int = 0) -> Pages[Secret]:
        """Lists the caller's secrets in the order of their names."""
        return self._transport.pages(
            "/v1/user-secrets",
            ListUserSecretsResponse,
            lambda page: (page.secrets, page.next_page_token),
            {"page_size": page_size},
        )

    def delete_mine(self, name: str) -> None:
        self._transport.call("DELETE", path(USER_SECRET, name=name), DeleteUserSecretResponse)

"""Builders for tests: identities, keys and channels like those of real callers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.tokens import TokenSigner


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key pair for internal tokens, as PEM text; valid for `scopes`, None for all."""

    key_id: str
    private_pem: str
    public_pem: str
    scopes: tuple[str, ...] | None = None

    def signer(self) -> TokenSigner:
        return TokenSigner(self.private_pem, self.key_id)


def make_key_pair(key_id: str = "test", scopes: tuple[str, ...] | None = None) -> KeyPair:
    key = Ed25519PrivateKey.generate()
    private_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(key_id, private_pem.decode(), public_pem.decode(), scopes)


def write_verify_keys(path: Path, pairs: Iterable[KeyPair]) -> Path:
    path.write_text(json.dumps({pair.key_id: _verify_key(pair) for pair in pairs}))
    return path


def _verify_key(pair: KeyPair) -> object:
    if pair.scopes is None:
        return pair.public_pem
    return {"public_key": pair.public_pem, "scopes": pair.scopes}


def make_identity(
    tenant: str = "acme",
    subject: str = "ada",
    scopes: Iterable[Scope] = (Scope.TENANT_ADMIN,),
    groups: Iterable[str] = (),
) -> Identity:
    """An identity; by default a tenant's admin."""
    return Identity(tenant, subject, frozenset(scopes), frozenset(groups))


def client_channel(port: int, identity: Identity, pair: KeyPair) -> grpc.aio.Channel:
    """A channel to a server on this machine that calls as `identity`."""
    return open_channel(f"127.0.0.1:{port}", pair.signer(), identity)


@asynccontextmanager
async def channel_to(
    add: Callable[[Any, grpc.aio.Server], None], servicer: object
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a servicer that this process serves, without tokens."""
    server = grpc.aio.server()
    add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def code_of(call: Awaitable[object]) -> grpc.StatusCode:
    """Returns the status that a call is rejected with."""
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    return rejected.value.code()

"""Envelope encryption: every value has a key of its own, which a master key encrypts.

Both are bound to owner and name, so that a row that is copied to another owner opens for no one.
"""

import json
import os
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from podium_kit.crypto.key_file import InvalidKeyFile, KeyFile
from tool_adapters.secrets.errors import NoMasterKey
from tool_adapters.secrets.models import Owner, Sealed

KEY_BYTES, NONCE_BYTES = 32, 12


class MasterKeys(Protocol):
    """The operations of a key management service; the keys need not be here."""

    async def current_id(self) -> str: ...

    async def wrap(self, key: bytes, context: bytes) -> tuple[str, bytes]:
        """The id of the current key, and the key encrypted with it. Raises NoMasterKey."""

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        """Raises NoMasterKey where that master key is gone, or it is another's."""


async def seal(keys: MasterKeys, owner: Owner, name: str, value: str) -> Sealed:
    key, nonce = AESGCM.generate_key(8 * KEY_BYTES), os.urandom(NONCE_BYTES)
    bound = _to(owner, name)
    key_id, wrapped = await keys.wrap(key, bound)
    return Sealed(key_id, wrapped, nonce, AESGCM(key).encrypt(nonce, value.encode(), bound))


async def opened(keys: MasterKeys, owner: Owner, name: str, sealed: Sealed) -> str:
    bound = _to(owner, name)
    key = await keys.unwrap(sealed.key_id, sealed.wrapped_key, bound)
    try:
        return AESGCM(key).decrypt(sealed.nonce, sealed.ciphertext, bound).decode()
    except InvalidTag:
        raise NoMasterKey(f"the secret {name} was not encrypted here; store it again") from None


async def rewrapped(keys: MasterKeys, owner: Owner, name: str, sealed: Sealed) -> Sealed:
    """The same value under the current master key. Raises NoMasterKey."""
    bound = _to(owner, name)
    key = await keys.unwrap(sealed.key_id, sealed.wrapped_key, bound)
    key_id, wrapped = await keys.wrap(key, bound)
    return Sealed(key_id, wrapped, sealed.nonce, sealed.ciphertext)


def _to(owner: Owner, name: str) -> bytes:
    return json.dumps([owner.tenant, owner.subject, name]).encode()


class MasterKeyFile:
    """`path` is None where the operator gave none."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else KeyFile(path)

    async def current_id(self) -> str:
        return list(self._keys())[-1]

    async def wrap(self, key: bytes, context: bytes) -> tuple[str, bytes]:
        key_id, master = list(self._keys().items())[-1]
        nonce = os.urandom(NONCE_BYTES)
        return key_id, nonce + AESGCM(master).encrypt(nonce, key, context)

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        master = self._keys().get(key_id)
        if master is None:
            raise NoMasterKey(f"the master key {key_id} is not in the file any more; add it again")
        nonce, rest = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return AESGCM(master).decrypt(nonce, rest, context)
        except InvalidTag:
            raise NoMasterKey(f"the master key {key_id} is another one than it was") from None

    def _keys(self) -> dict[str, bytes]:
        if self._file is None:
            raise NoMasterKey(
                "secrets are not stored here: the operator sets TOOL_ADAPTERS_MASTER_KEYS_FILE"
            )
        try:
            return self._file.keys()
        except InvalidKeyFile as error:
            raise NoMasterKey(f"the file of master keys {error}") from None

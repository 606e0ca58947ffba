"""Master keys in a file: a line each, an id and 32 bytes as base64; the last one is current.

It is read at every use, so that a key is added while this runs.
"""

import base64
import binascii
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tool_adapters.secrets.envelope import KEY_BYTES, NONCE_BYTES
from tool_adapters.secrets.errors import NoMasterKey

HOW = "a line of it is an id and 32 random bytes as base64; the last line is current"


class MasterKeyFile:
    """`path` is None where the operator gave none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

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
        """In the file's order. Raises NoMasterKey."""
        if self._path is None:
            raise NoMasterKey(
                "secrets are not stored here: the operator sets TOOL_ADAPTERS_MASTER_KEYS_FILE"
            )
        try:
            lines = self._path.read_text().splitlines()
            keys = dict(_key(line) for line in lines if line.strip())
        except (OSError, ValueError, binascii.Error):
            raise NoMasterKey(f"the file of master keys cannot be read; {HOW}") from None
        if not keys:
            raise NoMasterKey(f"the file of master keys is empty; {HOW}")
        return keys


def _key(line: str) -> tuple[str, bytes]:
    key_id, encoded = line.split()
    key = base64.b64decode(encoded, validate=True)
    if len(key) != KEY_BYTES:
        raise ValueError(key_id)
    return key_id, key

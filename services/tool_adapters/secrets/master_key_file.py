import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from podium_kit.crypto.key_file import InvalidKeyFile, KeyFile
from tool_adapters.secrets.envelope import NONCE_BYTES
from tool_adapters.secrets.errors import NoMasterKey


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

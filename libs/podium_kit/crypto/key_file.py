"""Keys in a file: a line each, an id and 32 bytes as base64; the last one is current.

It is read at every use, so that a key is added while a process runs.
"""

import base64
import binascii
import hashlib
import secrets
from pathlib import Path

KEY_BYTES = 32
HOW = "a line of it is an id and 32 random bytes as base64; the last line is current"


class InvalidKeyFile(ValueError):
    """It cannot be read, or holds no keys; the message says what belongs into it."""


class KeyFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def keys(self) -> dict[str, bytes]:
        try:
            lines = self.path.read_text().splitlines()
            found = [_key(line) for line in lines if line.strip()]
        except (OSError, ValueError, binascii.Error):
            raise InvalidKeyFile(f"cannot be read; {HOW}") from None
        if not found:
            raise InvalidKeyFile(f"is empty; {HOW}")
        keys = dict(found)
        if len(keys) < len(found):
            raise InvalidKeyFile("has two keys of one id; give each its own")
        return keys

    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of each key by its id, which tells no key. Raises InvalidKeyFile."""
        return {key_id: hashlib.sha256(key).hexdigest() for key_id, key in self.keys().items()}


def new_key_line(key_id: str) -> str:
    return f"{key_id} {base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}\n"


def _key(line: str) -> tuple[str, bytes]:
    key_id, encoded = line.split()
    key = base64.b64decode(encoded, validate=True)
    if len(key) != KEY_BYTES:
        raise ValueError(key_id)
    return key_id, key

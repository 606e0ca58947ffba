"""Ed25519 keys in PEM (RFC 7468): the private one signs, the public one goes to auditors."""

from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from podium_kit.rpc.errors import InvalidArgument


class InvalidKey(InvalidArgument):
    def __init__(self, kind: str) -> None:
        super().__init__(f"this is no {kind} Ed25519 key in PEM form")


def load_private_key(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidKey("private") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidKey("private")
    return key


def load_public_key(pem: bytes) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except ValueError as error:
        raise InvalidKey("public") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidKey("public")
    return key


def public_pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key, in hex."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()

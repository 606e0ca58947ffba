import hashlib

from google.protobuf.message import Message


def digest_of(message: Message) -> str:
    """Hexadecimal SHA-256 over everything in a message but its field `digest`."""
    rest = type(message)()
    rest.CopyFrom(message)
    rest.ClearField("digest")
    return hashlib.sha256(rest.SerializeToString(deterministic=True)).hexdigest()

"""The character NUL, which JSON and protobuf can carry and PostgreSQL cannot store."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from podium.common.v1 import access_pb2
from podium_kit.rpc.errors import InvalidArgument

NUL = "\0"


class NulInText(InvalidArgument):
    def __init__(self, field: str) -> None:
        super().__init__(f"{field} holds the character NUL (\\u0000); remove it", param=field)


def require_no_nul(message: Message) -> None:
    # Most messages have no zero byte at all, and this is found out at once.
    if b"\0" in message.SerializeToString():
        require_no_nul_in(message)


def require_no_nul_in(values: Any) -> None:
    waiting: list[tuple[str, Any]] = [("", values)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if NUL in value:
                raise NulInText(path)
            continue
        for name, inner in _parts(value):
            if NUL in str(name):
                raise NulInText(path or "a name")
            waiting.append((f"{path}.{name}" if path else str(name), inner))


def _parts(value: Any) -> Iterable[tuple[object, Any]]:
    if isinstance(value, Message):
        return [(field.name, inner) for field, inner in value.ListFields()]
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, Sequence) and not isinstance(value, bytes) else ()


@cache
def takes_any_characters(method: str) -> bool:
    service, _, name = method.partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return bool(found.GetOptions().Extensions[access_pb2.any_characters])

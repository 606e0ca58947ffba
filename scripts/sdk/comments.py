from collections.abc import Iterable
from typing import Any

from scripts.docs_site.contracts import descriptors

# Field numbers of FileDescriptorProto.message_type, DescriptorProto.field and .nested_type.
MESSAGE, FIELD, NESTED = 4, 2, 3


def comments() -> dict[str, str]:
    """Like podium.common.v1.Money.amount: its sentences on one line."""
    found: dict[str, str] = {}
    for file in descriptors().file:
        said = {
            tuple(place.path): " ".join(place.leading_comments.split())
            for place in file.source_code_info.location
        }
        for name, path in _named(file.package, file.message_type, (MESSAGE,)):
            if text := said.get(path):
                found[name] = text
    return found


# Descriptors of the stubs are not iterable types that mypy knows, hence Any.
def _named(
    scope: str, messages: Iterable[Any], above: tuple[int, ...]
) -> Iterable[tuple[str, tuple[int, ...]]]:
    for index, message in enumerate(messages):
        name, path = f"{scope}.{message.name}", (*above, index)
        yield name, path
        for number, field in enumerate(message.field):
            yield f"{name}.{field.name}", (*path, FIELD, number)
        yield from _named(name, message.nested_type, (*path, NESTED))

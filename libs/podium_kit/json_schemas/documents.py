from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from podium_kit.json_schemas.walk import Node, subschemas

ROOT = "#"


class UnknownTarget(ValueError):
    """The reference leads out of the document or to nothing."""


class SchemaDocument:
    """A schema and the names that its parts have; nothing is fetched."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._base = _id_of(root)
        self._ids: dict[str, Any] = {}
        for _, node in subschemas(root):
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._ids.setdefault(f"{self._base}#{node[keyword]}", node)
            if name := _id_of(node):
                # What is no URL cannot be referred to.
                with suppress(ValueError):
                    self._ids.setdefault(urljoin(self._base, name).removesuffix(ROOT), node)

    def target(self, reference: str) -> Any:
        try:
            absolute = urljoin(self._base, reference) if reference != ROOT else self._base
            document, fragment = urldefrag(absolute)
        except ValueError as error:
            raise UnknownTarget(f"{reference[:100]!r} is no reference: {error}") from error
        if absolute.removesuffix(ROOT) in self._ids:
            return self._ids[absolute.removesuffix(ROOT)]
        root = self._ids.get(document) if document else self._root
        if root is None and document == urldefrag(self._base)[0]:
            root = self._root
        if root is None or (fragment and not fragment.startswith("/")):
            raise UnknownTarget(f"{reference[:100]!r} is not part of the schema")
        return pointed(root, fragment, reference)


def pointed(root: Any, fragment: str, reference: str) -> Any:
    """The schema under a JSON pointer (RFC 6901). Raises UnknownTarget."""
    target = root
    for part in fragment.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name in map(str, range(len(target))):
            target = target[int(name)]
        else:
            raise UnknownTarget(f"{reference[:100]!r} names nothing in the schema")
    if not isinstance(target, dict | bool):
        raise UnknownTarget(f"{reference[:100]!r} does not name a schema")
    return target


def _id_of(node: Node) -> str:
    name = node.get("$id", node.get("id"))
    return name if isinstance(name, str) else ""

"""YAML that a stranger wrote, read as JSON would be.

Events come one by one, so a text is measured before anything is made of it: merge keys and aliases
of aliases can make a few lines as large as memory.
"""

from typing import Any

import yaml

from podium_kit.json_yaml import JsonValues
from tool_registry.tools.openapi.errors import InvalidOpenApi

# A node takes 300 bytes while it is composed.
YAML_NODES_MAX = 1_000_000
# The loader in C takes its stack for each level, and ends the process where that is used up.
YAML_DEPTH_MAX = 1_000
MERGE = "tag:yaml.org,2002:merge"


class _JsonLoader(JsonValues, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def loaded_yaml(text: str) -> Any:
    _require_bounded(text)
    return yaml.load(text, _JsonLoader)  # noqa: S506  it is a SafeLoader


def _require_bounded(text: str) -> None:
    nodes = 0
    size_of: dict[str, int] = {}
    open_nodes: list[tuple[str, int]] = []
    for event in yaml.parse(text, _JsonLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            size_of[anchor] = nodes - before
        elif isinstance(event, yaml.AliasEvent):
            nodes += _size_of_alias(event, size_of)
        elif isinstance(event, yaml.NodeEvent):
            anchor = event.anchor or ""
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((anchor, nodes))
                _require_shallow(event, len(open_nodes))
            elif isinstance(event, yaml.ScalarEvent):
                _require_no_merge(event)
                size_of[anchor] = 1
            nodes += 1
        if nodes > YAML_NODES_MAX:
            raise InvalidOpenApi(
                f"the YAML holds more than {YAML_NODES_MAX} values, those of an alias counted each"
                " time; leave operations out, or send it as JSON"
            )


def _require_shallow(event: yaml.CollectionStartEvent, depth: int) -> None:
    if depth > YAML_DEPTH_MAX:
        raise InvalidOpenApi(
            f"line {_line(event)}: values are nested more than {YAML_DEPTH_MAX} deep; flatten them"
        )


def _size_of_alias(alias: yaml.AliasEvent, size_of: dict[str, int]) -> int:
    if alias.anchor not in size_of:
        raise InvalidOpenApi(
            f"line {_line(alias)}: the alias *{alias.anchor} names what it is part of, or nothing;"
            " write out what is meant"
        )
    return size_of[alias.anchor]


def _require_no_merge(scalar: yaml.ScalarEvent) -> None:
    if scalar.tag == MERGE or (scalar.value == "<<" and scalar.implicit[0]):
        raise InvalidOpenApi(
            f"line {_line(scalar)}: merge keys (<<) are not read; write out the fields that they"
            " merge, or convert the document to JSON"
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0

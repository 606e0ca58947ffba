"""docs/telemetry.yaml names exactly what the code emits."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import yaml

from unit.house.source_files import ROOT, calls, product_files, tree

REGISTRY: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs/telemetry.yaml").read_text())
SPAN_CALLS = {"span", "start_span", "start_as_current_span"}
METRIC_CALLS = {
    "create_counter",
    "create_up_down_counter",
    "create_histogram",
    "create_gauge",
    "create_observable_gauge",
    "create_observable_counter",
    "create_observable_up_down_counter",
}
LABEL_CALLS = {"set_attribute"}


def first_literals(functions: set[str]) -> Iterator[tuple[str, ast.Call]]:
    for path in product_files():
        for name, call in calls(path):
            first = call.args[0] if call.args else None
            if name.split(".")[-1] in functions and isinstance(first, ast.Constant):
                yield str(first.value), call


def emitted_attributes() -> set[str]:
    """Dotted keys of dictionary literals that share a registered prefix, and set_attribute."""
    prefixes = {name.split(".")[0] + "." for name in REGISTRY["attributes"]} | {"podium."}
    keys = {
        key.value
        for path in product_files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    dotted = {
        key
        for key in keys
        # Contracts have dotted names too, and end in their version.
        if key.startswith(tuple(prefixes)) and not re.search(r"\.v\d+(\.|$)", key)
    }
    return dotted | {name for name, _ in first_literals(LABEL_CALLS)}


def test_every_span_is_registered_and_every_registered_span_exists() -> None:
    assert {name for name, _ in first_literals(SPAN_CALLS)} == set(REGISTRY["spans"])


def test_every_metric_is_registered_and_every_registered_metric_exists() -> None:
    assert {name for name, _ in first_literals(METRIC_CALLS)} == set(REGISTRY["metrics"])


def test_every_metric_has_the_registered_unit() -> None:
    units = {name: unit_of(call) for name, call in first_literals(METRIC_CALLS)}
    assert units == {name: metric["unit"] for name, metric in REGISTRY["metrics"].items()}


def test_every_attribute_is_registered_and_every_registered_attribute_exists() -> None:
    assert emitted_attributes() == set(REGISTRY["attributes"])


def unit_of(call: ast.Call) -> str | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "unit"]
    value = named[0] if named else (call.args[1] if len(call.args) > 1 else None)
    return str(value.value) if isinstance(value, ast.Constant) else None

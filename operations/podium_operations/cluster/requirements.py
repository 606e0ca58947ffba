"""The APIs that a values file needs: the chart's integrations, as data in integrations.yaml."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium_kit.client.errors import UsageError

TABLE = Path(__file__).with_name("integrations.yaml")


@dataclass(frozen=True)
class Integration:
    """The needs of a switch or mode: `apis` maps group/version to the kinds it must serve."""

    operator: str
    minimum: str
    apis: dict[str, list[str]]
    install: str


@cache
def integrations() -> dict[str, Integration]:
    return {switch: Integration(**row) for switch, row in _table()["switches"].items()}


@cache
def of_modes() -> dict[str, list[Integration]]:
    return {mode: [Integration(**row) for row in rows] for mode, rows in _table()["modes"].items()}


def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(TABLE.read_text())
    return table


def wanted(files: list[Path]) -> list[Integration]:
    """Returns the needs of these values files, in the order of installing; later files win.

    Raises UsageError when a file is unreadable or switches on what the chart does not know.
    """
    enabled: dict[str, bool] = {}
    mode = ""
    for file in files:
        values = _values(file)
        for switch, options in _mapping(file, values, "integrations").items():
            if switch not in integrations():
                raise UsageError(
                    f"{file}: integrations.{switch} is no switch of the chart",
                    f"use one of: {', '.join(sorted(integrations()))}",
                )
            if isinstance(options, dict) and "enabled" in options:
                enabled[switch] = bool(options["enabled"])
        mode = str(_mapping(file, values, "inference").get("mode", mode))
    found = [each for switch, each in integrations().items() if enabled.get(switch)]
    return found + (of_modes().get(mode, []) if enabled.get("kserve") else [])


def _values(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{file} is no values file: {error}", "name a file of values") from error
    if not isinstance(values, dict):
        raise UsageError(f"{file} is no values file", "its top level must be a mapping")
    return values


def _mapping(file: Path, values: dict[str, Any], key: str) -> dict[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, dict):
        raise UsageError(f"{file} is no values file", f"its {key} must be a mapping")
    return found

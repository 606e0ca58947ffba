"""Which APIs a values file asks for: the chart's integrations, as data in integrations.yaml."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium_cli.errors import UsageError

TABLE = Path(__file__).with_name("integrations.yaml")


@dataclass(frozen=True)
class Integration:
    """One switch of the chart: `apis` maps group/version to the kinds it must serve."""

    switch: str
    operator: str
    minimum: str
    apis: dict[str, list[str]]
    install: str


@cache
def integrations() -> dict[str, Integration]:
    """Every integration of the chart by the name of its switch."""
    table = yaml.safe_load(TABLE.read_text())
    return {switch: Integration(switch, **row) for switch, row in table.items()}


def switched_on(files: list[Path]) -> list[Integration]:
    """What these values files switch on; later files win, as Helm has it.

    Raises UsageError when a file is unreadable or switches on what the chart does not know.
    """
    enabled: dict[str, bool] = {}
    for file in files:
        for switch, options in _switches(file).items():
            if switch not in integrations():
                raise UsageError(
                    f"{file}: integrations.{switch} is no switch of the chart",
                    f"use one of: {', '.join(sorted(integrations()))}",
                )
            if isinstance(options, dict) and "enabled" in options:
                enabled[switch] = bool(options["enabled"])
    return [integrations()[switch] for switch, on in enabled.items() if on]


def _switches(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{file} is no values file: {error}", "name a file of values") from error
    found = values.get("integrations", {}) if isinstance(values, dict) else None
    if not isinstance(found, dict):
        raise UsageError(f"{file} is no values file", "its top level must be a mapping")
    return found

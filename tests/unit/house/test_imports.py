import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUFF = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
ON_USE = RUFF["flake8-tidy-imports"]["banned-module-level-imports"]
# What a service needs at its start, whatever is asked of it.
NEEDED = {
    "cost_ledger.server": [],
    "episodes.server": [],
    "episodes.worker": ["kafka", "podium_kit.stream.clients"],
    "gateway.server": [],
    "orchestrator_inference.server": [],
    "tool_adapters.server": [],
    "tool_adapters.functions.worker": [],
    "tool_registry.server": [],
    "podium_cli.app": [],
}
# With those of the standard library; as many take about a second of a slow processor.
MODULES_MAX = 1_600


def imported_by(module: str) -> set[str]:
    """Every module that a fresh process has after importing one."""
    program = f"import {module}, sys; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    return set(listed.split())


@pytest.mark.parametrize("service", NEEDED)
def test_importing_a_service_does_not_import_what_is_imported_on_use(service: str) -> None:
    imported = imported_by(service)
    assert imported.intersection(ON_USE) == set(NEEDED[service])
    assert len(imported) <= MODULES_MAX

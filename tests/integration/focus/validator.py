"""The FinOps Foundation's focus-validator, in environments of their own in the cache.

It needs older versions of pandas and numpy than the platform. Release 1.0.0 has the rules of
FOCUS 1.0; release 2.2.1 has those of 1.2 and needs Python 3.12.
"""

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from filelock import FileLock

from podium_kit.embedded.packages import install
from podium_kit.embedded.wheels import cache_dir

FOLDER = Path(__file__).parent
# FOCUS 1.2 states "null without an invoice, else not null" as two rules of which one has to pass.
ALTERNATIVE, ALTERNATIVES = "InvoiceId-C-005-C: FAIL", "InvoiceId-C-003-C: PASS"
MISSING = "the rules of FOCUS 1.2: focus-validator 2.2.1 needs a python3.12"


@cache
def python_3_12() -> str | None:
    """None where the machine has no Python 3.12 that starts."""
    program = shutil.which("python3.12")
    if program is None:
        return None
    started = subprocess.run([program, "-c", ""], capture_output=True, check=False)
    return program if started.returncode == 0 else None


def failures_of_1_0(file: Path) -> list[str]:
    report = file.with_suffix(".report.xml")
    options = ("--output-type", "unittest", "--output-destination", str(report))
    errors = _validated("1.0", sys.executable, file, *options).stderr
    assert report.exists(), errors
    return [line.strip() for line in report.read_text().splitlines() if "<failure" in line]


def failures_of_1_2(file: Path) -> list[str]:
    python = python_3_12()
    assert python is not None, MISSING
    options = ("--focus-dataset", "CostAndUsage", "--block-download")
    ended = _validated("1.2.0.1", python, file, *options)
    assert ": PASS" in ended.stdout, ended.stderr
    failures = [line for line in ended.stdout.splitlines() if ": FAIL" in line]
    if ALTERNATIVES in ended.stdout:
        return [line for line in failures if ALTERNATIVE not in line]
    return failures


def _validated(
    version: str, python: str, file: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    folder = _installed(FOLDER / f"requirements_{'_'.join(version.split('.')[:2])}.txt", python)
    program = folder / "bin" / "focus-validator"
    return subprocess.run(
        [program, "--data-file", file, "--validate-version", version, *options],
        # Its list of currencies is read from a path relative to the installation.
        cwd=next(folder.glob("lib/python*/site-packages")),
        capture_output=True,
        text=True,
        check=False,
    )


def _installed(requirements: Path, python: str) -> Path:
    pins = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"focus-validator-{pins}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "installed").exists():
            subprocess.run([python, "-m", "venv", "--without-pip", "--clear", folder], check=True)
            install(requirements, str(folder / "bin" / "python"))
            # Written last, so that a half install is done again.
            (folder / "installed").touch()
    return folder

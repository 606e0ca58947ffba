"""The FinOps Foundation's focus-validator, in an environment of its own in the cache.

It needs older versions of pandas and numpy than the platform, hence the environment.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from podium_kit.embedded.cache import cache_dir
from podium_kit.embedded.packages import install

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def failures_of(file: Path) -> list[str]:
    """The rules of FOCUS 1.0 that the file breaks."""
    folder, report = _installed(), file.with_suffix(".report.xml")
    command: list[str | Path] = [
        folder / "bin" / "focus-validator",
        "--data-file",
        file,
        "--validate-version",
        "1.0",
    ]
    # Its list of currencies is read from a path relative to the installation.
    packages = next(folder.glob("lib/python*/site-packages"))
    ended = subprocess.run(
        [*command, "--output-type", "unittest", "--output-destination", report],
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), ended.stderr
    return [line.strip() for line in report.read_text().splitlines() if "<failure" in line]


def _installed() -> Path:
    pins = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"focus-validator-{pins}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "installed").exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", folder], check=True)
    install(REQUIREMENTS, str(python))
    # Written last, so that a half install is done again.
    (folder / "installed").touch()

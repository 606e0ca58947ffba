"""The FinOps Foundation's focus-validator, in an environment of its own in the cache.

It needs older versions of pandas and numpy than the platform, hence the environment.
"""

import csv
import hashlib
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from embedded.cache import cache_dir

# Release 1.0.0 checks FOCUS 1.0 under four names of its preview, and reads ChargeType.
BEFORE_1_0 = {
    "InvoiceIssuerName": "InvoiceIssuer",
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "ResourceId": "ResourceID",
}
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def failures_of(file: Path) -> list[str]:
    """The rules of FOCUS 1.0 that the file breaks."""
    folder = _installed()
    report, data = file.with_suffix(".report.xml"), _in_its_words(file)
    command: list[str | Path] = [
        folder / "bin" / "focus-validator",
        "--data-file",
        data,
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


def _in_its_words(file: Path) -> Path:
    """The file under the column names that the validator still has from before 1.0."""
    copy = file.with_suffix(".renamed.csv")
    with file.open() as source, copy.open("w", newline="") as target:
        rows = list(csv.DictReader(source))
        names = [BEFORE_1_0.get(name, name) for name in rows[0]]
        writer = csv.writer(target)
        writer.writerow([*names, "ChargeType"])
        writer.writerows([*row.values(), row["ChargeCategory"]] for row in rows)
    return copy


def _installed() -> Path:
    pins = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"focus-validator-{pins}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "installed").exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
    # Written last, so that a half install is done again.
    (folder / "installed").touch()

"""The code of the release before this version, to run beside it."""

import subprocess
from pathlib import Path

from unit.house.source_files import ROOT

# Until there is a release: a build whose first schema is that of today.
BEFORE_RELEASES = "4adbd49f67f6fe459600b4f8ae65b5829f2ba831"
PACKAGES = ("libs", "services", "protos/gen")


def code_of_last_release(folder: Path) -> list[str]:
    """Unpacks it into the folder; what continues PYTHONPATH."""
    tags = _git("describe", "--tags", "--abbrev=0", "HEAD^", check=False).decode().split()
    archive = _git("archive", tags[0] if tags else BEFORE_RELEASES, *PACKAGES)
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
    return [str(folder / package) for package in PACKAGES]


def _git(*arguments: str, check: bool = True) -> bytes:
    # Needs the history: `git fetch --unshallow` brings it into a shallow clone.
    argv = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(argv, stdout=subprocess.PIPE, check=check).stdout

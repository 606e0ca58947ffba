"""Installs a complete list of pinned packages with uv, from the sources that pip was given.

`make setup` and vLLM's environment run this file by its path, so it needs nothing but uv:

    python -I packages.py LIST [PYTHON]

PYTHON is the interpreter of the environment to install into, by default the running one. Ends with
one line and status 1 where something cannot be had.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import uv

# pip's setting, and uv's option for each word of it.
SOURCES = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}
SETTING = re.compile(r"(?:global|install|:env:)\.([\w-]+)=('.*'|\".*\")")
PROGRESS = ("Downloading", "Downloaded", "Building", "Built", "Prepared", "Installed")
FIX = "name an index in PIP_INDEX_URL, or a folder with its wheel in PIP_FIND_LINKS"
CUDA = (
    "PyTorch's CPU build is out of reach: installing the one with CUDA, which runs on a CPU too "
    "(2 GB more; a folder with the CPU build's wheel in PIP_FIND_LINKS avoids it)"
)


class CannotInstall(Exception):
    """uv could not get a package."""


def install(packages: Path, python: str) -> None:
    """Install exactly the list, and torch in its CPU build where that can be had."""
    installer = Installer(python)
    pinned = re.search(r"^torch==[\w.]+", packages.read_text(), re.MULTILINE)
    cuda = None
    if pinned and not installer.has(f"{pinned.group()}+cpu"):
        if installer.has(f"{pinned.group()}+cpu", "--torch-backend=cpu"):
            installer.options.append("--torch-backend=cpu")
        elif installer.has(pinned.group()):
            cuda = pinned.group()
            print(CUDA, flush=True)
    # The list is complete: resolving it again could only disagree with it.
    installer.install("--no-deps", f"--requirements={packages}")
    if cuda:
        installer.install(cuda, f"--constraints={packages}")


class Installer:
    def __init__(self, python: str) -> None:
        settings = dict(_pip_settings())
        words = [(option, settings.get(key, "").split()) for key, option in SOURCES.items()]
        # pip takes the best version of all its indexes, uv that of the first with the package.
        self.options = [f"--python={python}", "--no-config", "--index-strategy=unsafe-best-match"]
        self.options += [f"{option}={word}" for option, given in words for word in given]
        if settings.get("no-index", "0").lower() in {"1", "true", "yes", "on"}:
            self.options.append("--no-index")
        known = {name: settings[key] for key, name in VARIABLES.items() if key in settings}
        self._environment = known | os.environ

    def has(self, *arguments: str) -> bool:
        try:
            self.install("--dry-run", "--no-deps", *arguments)
        except CannotInstall:
            return False
        return True

    def install(self, *arguments: str) -> None:
        command = [uv.find_uv_bin(), "pip", "install", *self.options, *arguments]
        lines = []
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=self._environment
        ) as process:
            for line in process.stderr or ():
                lines.append(line.strip())
                if line.strip().startswith(PROGRESS):
                    print(line.strip(), flush=True)
        if process.returncode:
            why = [line for line in lines if line.startswith(("error: ", "cause: "))] or lines
            raise CannotInstall(": ".join(line.split(": ", 1)[-1] for line in why[:2]).rstrip("."))


def _pip_settings() -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found = [match for line in lines if (match := SETTING.fullmatch(line))]
    for match in sorted(found, key=lambda match: match.group().startswith(":env:")):
        yield match.group(1), ast.literal_eval(match.group(2))


if __name__ == "__main__":
    packages = Path(sys.argv[1])
    try:
        install(packages, *(sys.argv[2:] or [sys.executable]))
    except CannotInstall as error:
        sys.exit(f"could not install {packages.name}: {error}; {FIX}")

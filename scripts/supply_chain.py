"""`make supply-chain`: what images install, what is known against it, and secrets in the code.

Writes a CycloneDX bill of materials for each image's requirements to build/sbom, asks the package
index for known vulnerabilities, and looks for credentials in committed files. Exit status 1 for a
vulnerability or a credential; packages that the index tells nothing of are counted and named.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

IMAGES = ("platform", "training", "engine")
SBOM = Path("build/sbom")
# Tools of their own: what they need is nothing that the product needs.
CYCLONEDX, AUDIT, SECRETS = "cyclonedx-bom==7.5.0", "pip-audit==2.10.1", "detect-secrets==1.5.0"
# Guesses by entropy and by variable names find our digests and tests alone.
GUESSES = (
    "Base64HighEntropyString",
    "HexHighEntropyString",
    "KeywordDetector",
    "BasicAuthDetector",
)
# The longest that one tool may take: most of it is what it asks the package index.
PATIENCE_S = 1800


def tool(package: str, *command: str | Path) -> str:
    uv = Path(sys.executable).with_name("uv")
    argv = [uv, "tool", "run", "--quiet", "--from", package, *command]
    # In a group of its own: uv starts the tool, which starts others.
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, process_group=0) as running:
        try:
            said, _ = running.communicate(timeout=PATIENCE_S)
        except BaseException as error:
            os.killpg(running.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise SystemExit(
                f"{command[0]} gave no answer within {PATIENCE_S} s;"
                " check that the package index of PIP_INDEX_URL can be reached, and try again"
            ) from None
    if running.returncode not in (0, 1):
        raise subprocess.CalledProcessError(running.returncode, argv)
    return said


def write_sboms() -> None:
    SBOM.mkdir(parents=True, exist_ok=True)
    for image in IMAGES:
        path = SBOM / f"{image}.cdx.json"
        tool(CYCLONEDX, "cyclonedx-py", "requirements", requirements(image), "-o", path)
        components = json.loads(path.read_text())["components"]
        print(f"{path}: {len(components)} packages")


def vulnerabilities() -> int:
    found, unknown = 0, set()
    for image in IMAGES:
        options = ("--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json")
        report: dict[str, Any] = json.loads(
            tool(AUDIT, "pip-audit", "-r", requirements(image), *options)
        )
        for package in report["dependencies"]:
            if "skip_reason" in package:
                unknown.add(package["name"])
            for fault in package.get("vulns", ()):
                found += 1
                fixed = ", ".join(fault["fix_versions"]) or "no version"
                print(
                    f"{image}: {package['name']} {package['version']}: {fault['id']},"
                    f" fixed in {fixed}"
                )
    if unknown:
        print(
            f"not audited, because the index tells nothing of them: {len(unknown)} packages,"
            f" like {min(unknown)}"
        )
    return found


def secrets() -> int:
    """Counts the credentials in committed files, and prints each.

    None is tried out: that would send it to the provider whose key it resembles, and would wait
    for ever where the network drops what it does not let through.
    """
    disabled = [part for guess in GUESSES for part in ("--disable-plugin", guess)]
    report = json.loads(tool(SECRETS, "detect-secrets", "scan", "--no-verify", *disabled))
    found = [(path, each) for path, many in report["results"].items() for each in many]
    for path, each in found:
        print(f"{path}, line {each['line_number']}: {each['type']}")
    return len(found)


def requirements(image: str) -> Path:
    return Path("requirements") / f"{image}.txt"


if __name__ == "__main__":
    write_sboms()
    found = vulnerabilities()
    print("looking for credentials in committed files, a minute or two", flush=True)
    sys.exit(1 if found + secrets() else 0)

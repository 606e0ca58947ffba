import hashlib
import shutil
import subprocess
from pathlib import Path

CLIENT = Path("sdks/typescript")
SCHEMA = CLIENT / "src" / "schema.ts"
MISSING = "missing: node 20 or later with npm, for the types of sdks/typescript"


def header(document: str) -> str:
    digest = hashlib.sha256(document.encode()).hexdigest()
    return f"// Made by `make sdk` of openapi.json with SHA-256 {digest}; do not edit.\n"


def is_stale(document: str) -> bool:
    return not SCHEMA.is_file() or not SCHEMA.read_text().startswith(header(document))


def write_types(document: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(MISSING)
    subprocess.run([npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=CLIENT, check=True)
    subprocess.run([npm, "run", "--silent", "generate"], cwd=CLIENT, check=True)
    SCHEMA.write_text(header(document) + SCHEMA.read_text())

"""`python -m scripts.sdk` writes what is generated; with `--check` it says what is stale."""

import argparse
import json
import sys
from pathlib import Path

from scripts.sdk.document import client_document
from scripts.sdk.python import models, synchronous
from scripts.sdk.typescript import SCHEMA, is_stale, write_types

DOCUMENT = Path("sdks/openapi.json")
PYTHON = Path("sdks/python/podium_client")


def generated() -> dict[Path, str]:
    document = client_document()
    return {
        DOCUMENT: json.dumps(document, indent=1, sort_keys=True) + "\n",
        PYTHON / "models.py": models(document),
        **{PYTHON / "_sync" / name: text for name, text in synchronous(PYTHON / "_async").items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.sdk", description=__doc__)
    parser.add_argument("--check", action="store_true")
    files = generated()
    if not parser.parse_args().check:
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        if is_stale(files[DOCUMENT]):
            write_types(files[DOCUMENT])
        return
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (PYTHON / "_sync").glob("*.py") if path not in files]
    if is_stale(files[DOCUMENT]):
        stale.append(SCHEMA)
    if stale:
        sys.exit(f"stale: {', '.join(map(str, stale))}; run 'make sdk' and commit it")


if __name__ == "__main__":
    main()

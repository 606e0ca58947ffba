"""The sealed tasks, unpacked in memory alone."""

import gzip
from pathlib import Path
from typing import Any

import yaml

ARCHIVE = Path(__file__).with_name("tasks.yaml.gz")


def sealed_documents() -> list[dict[str, Any]]:
    """One document for each kind of tool, as a file of bundled tasks has it."""
    return list(yaml.safe_load_all(gzip.decompress(ARCHIVE.read_bytes())))

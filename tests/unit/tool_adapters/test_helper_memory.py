"""The chart's limit of memory covers the service and all of its helper processes at once."""

from pathlib import Path

import yaml

from podium_functions import sql_reader
from tool_adapters.corpus import index_builder, pdf, pdf_reader, service
from tool_adapters.functions import worker
from tool_adapters.functions.processes import PROCESSES_MAX

ROOT = Path(__file__).parents[3]
VALUES = ROOT / "charts" / "podium" / "values.yaml"
QUERY_TOOL = ROOT / "bundled" / "tools" / "query_database.yaml"
GIB = 1024**3
# Of the service itself, besides the indexes that it keeps.
SERVICE_BYTES = GIB


def queries_at_once() -> int:
    spec = yaml.safe_load(QUERY_TOOL.read_text())
    return int(spec["limits"]["maxConcurrency"])


def test_the_limit_covers_every_helper_at_once() -> None:
    needed = SERVICE_BYTES + service.INDEX_BYTES_KEPT
    needed += PROCESSES_MAX * worker.MEMORY_BYTES_MAX
    needed += pdf.READERS.count * pdf_reader.MEMORY_BYTES_MAX
    needed += service.INDEXERS.count * index_builder.MEMORY_BYTES_MAX
    needed += queries_at_once() * sql_reader.MEMORY_BYTES_MAX
    values = yaml.safe_load(VALUES.read_text())
    limit = values["components"]["tool-adapters"]["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert needed <= int(limit.removesuffix("Gi")) * GIB

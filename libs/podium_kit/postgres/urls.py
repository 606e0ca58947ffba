"""URLs of databases as operators and providers write them, for the driver of the services."""

import inspect
from typing import Any

import asyncpg
from sqlalchemy import URL, make_url

DRIVER = "postgresql+asyncpg"
ASYNCPG = frozenset(inspect.signature(asyncpg.connect).parameters)


def driver_url(text: str) -> URL:
    """The URL for SQLAlchemy, of one that libpq takes too, as postgresql://HOST/DB?sslmode=require.

    Raises sqlalchemy.exc.ArgumentError for what is no URL.
    """
    url = make_url(text.strip())
    query = dict(url.query)
    if mode := query.pop("sslmode", ""):
        query["ssl"] = mode
    return url.set(drivername=DRIVER, query=query)


def connect_arguments(url: URL) -> dict[str, Any]:
    """What SQLAlchemy would give the bare driver; options of its own are left out."""
    arguments = url.get_dialect()().create_connect_args(url)[1]
    return {name: value for name, value in arguments.items() if name in ASYNCPG}

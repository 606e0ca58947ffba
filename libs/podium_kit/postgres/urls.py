import inspect
from typing import Any

import asyncpg
from sqlalchemy import URL, make_url

from podium_kit.rpc.errors import FailedPrecondition

DRIVER = "postgresql+asyncpg"
ASYNCPG = frozenset(inspect.signature(asyncpg.connect).parameters)
OF_SQLALCHEMY = frozenset({"prepared_statement_cache_size"})


class UnknownOption(FailedPrecondition):
    """The URL has an option that the driver does not know, though libpq may."""

    def __init__(self, option: str) -> None:
        # The driver reads libpq's variables of TLS, as PGSSLROOTCERT.
        instead = f" and set PG{option.upper()} instead" if option.startswith("ssl") else ""
        super().__init__(
            f"the database's URL has the option {option}, which is not known here; "
            f"leave it out{instead}"
        )


def driver_url(text: str) -> URL:
    """The URL for SQLAlchemy, of one that libpq takes too, as postgresql://HOST/DB?sslmode=require.

    Raises UnknownOption, and sqlalchemy.exc.ArgumentError for what is no URL.
    """
    url = make_url(text.strip())
    query = dict(url.query)
    if mode := query.pop("sslmode", ""):
        query["ssl"] = mode
    for option in query.keys() - ASYNCPG - OF_SQLALCHEMY:
        raise UnknownOption(option)
    return url.set(drivername=DRIVER, query=query)


def connect_arguments(url: URL) -> dict[str, Any]:
    arguments = url.get_dialect()().create_connect_args(url)[1]
    return {name: value for name, value in arguments.items() if name in ASYNCPG}

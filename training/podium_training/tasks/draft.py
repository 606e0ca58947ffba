import atexit
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from duckdb import DuckDBPyConnection

from podium_functions.sample_database import sample_database
from podium_functions.sql_reader import opened, queried
from podium_functions.table import FUNCTIONS
from podium_training.tasks.task import Call


@dataclass(frozen=True)
class Draft:
    kind: str
    """Name in the family's phrasings."""
    entities: dict[str, Any]
    verifier: str
    parameters: dict[str, Any]
    solution: tuple[Call, ...] = field(default=())
    """Empty when the question holds its own answer."""


def solve(call: Call) -> Any:
    """Returns the answer of a bundled function: the code that the platform's tool runs."""
    if call.tool != "query_database":
        return FUNCTIONS[call.tool](call.arguments)
    # A family's own statement does not need a process with limits.
    return queried(_opened_database(), call.arguments["sql"])


@cache
def _opened_database() -> DuckDBPyConnection:
    # DuckDB complains about a connection that outlives the interpreter.
    atexit.register(_opened_database.cache_clear)
    return opened(sample_database())


def decimal_text(number: float) -> str:
    """The digits that a tool's answer shows, so that they can be copied; never an exponent."""
    return f"{Decimal(repr(number)):f}"

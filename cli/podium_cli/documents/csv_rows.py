"""Rows as csv.DictReader gives them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium_cli.documents.documents import InvalidDocument


def require_no_surplus(path: Path, place: str, row: Mapping[Any, Any]) -> None:
    """Raises InvalidDocument for a row of more cells than there are columns.

    Those cells are under None, and what comes before them may be cut: 0,002 has become 0.
    """
    if None in row:
        raise InvalidDocument(
            path,
            f"{place} has more cells than there are columns",
            "write decimals with a point, and cells that hold a comma in quotes; nothing was "
            "changed",
        )

"""The scopes that operations need, as the OpenAPI document states them.

REST routes of RPCs have theirs from the contract; routes of the gateway's own state theirs here.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import Depends

from podium_kit.rpc.identity import Scope, require_scope

SECURITY_SCHEME = "api_key"


def needs(*scopes: Scope) -> dict[str, Any]:
    """Returns the options of a FastAPI route for callers with one of the scopes."""

    async def check() -> None:
        require_scope(*scopes)

    return {
        "dependencies": [Depends(check)],
        "openapi_extra": {"security": security(scopes)},
    }


def security(scopes: Iterable[str]) -> list[dict[str, list[str]]]:
    """Returns OpenAPI's requirement of any one of the scopes; none: of any caller."""
    return [{SECURITY_SCHEME: [scope]} for scope in sorted(scopes)] or [{SECURITY_SCHEME: []}]

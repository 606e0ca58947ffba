from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from gateway.rest.routes import ROUTES
from gateway.scopes import SECURITY_SCHEME
from podium_kit.rpc.access import access_of
from podium_kit.rpc.identity import Identity, Scope


def allowed_operations(app: FastAPI, caller: Identity) -> list[str]:
    """Returns the operation ids that the caller's scopes allow, in order."""
    stated = [
        (f"{route.rpc}Rest", access_of(f"{route.service}/{route.rpc}").scopes) for route in ROUTES
    ]
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema and route.operation_id:
            extra = (route.openapi_extra or {}).get("security", [])
            named = frozenset(Scope(name) for each in extra for name in each[SECURITY_SCHEME])
            stated.append((route.operation_id, named))
    return sorted(
        operation
        for operation, scopes in stated
        if not scopes or any(caller.may(scope) for scope in scopes)
    )

"""Errors of bodies and queries that are not RPCs, in words for their sender."""

from fastapi.exceptions import RequestValidationError

from gateway.chat.parts import INVALID_PART
from gateway.errors import MalformedRequest

# A name that a client made up may have megabytes.
PARAM_CHARACTERS_MAX = 200
# How pydantic calls a whole body that is no object.
NO_OBJECT = ("missing", "model_attributes_type")


def malformed_request(error: RequestValidationError) -> MalformedRequest:
    """The first fault, and the parameter that has it."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        fault, place = first["ctx"]["error"], first["loc"][-1]
        return MalformedRequest(f"the body is not JSON: {fault} at character {place}")
    if first["loc"] == ("body",) and first["type"] in NO_OBJECT:
        # JSON holds no bytes: the body was not read as such.
        unread = isinstance(first["input"], bytes)
        fix = "; send it with the header Content-Type: application/json" if unread else ""
        return MalformedRequest(f"the body must be a JSON object{fix}")
    param = ".".join(str(part) for part in first["loc"][1:])[:PARAM_CHARACTERS_MAX] or None
    where = f"{param}: " if param else ""
    code = first["ctx"]["code"].upper() if first["type"] == INVALID_PART else None
    return MalformedRequest(f"{where}{first['msg']}", param=param, reason=code)

import json
from dataclasses import dataclass
from functools import lru_cache, partial

from gateway.errors import InvalidAnswerSchema
from podium_kit.json_schemas.checks import checked_object, parsed_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.loosening import loosened_object
from podium_kit.limits.concurrency import FairThread
from podium_kit.rpc.identity import current_identity

# A client sends the same one with every request. Each has at most 64 KiB.
SCHEMAS_KEPT = 256
# A header shows fewer; of a tenant's schemas, this much is in everybody's memory.
PLACES_MAX = 100
# The largest takes a second.
READING = FairThread()


@dataclass(frozen=True)
class AnswerSchema:
    """A schema as text, "" for any text, and the places of what it does not enforce."""

    text: str
    loosened: tuple[str, ...] = ()


async def enforceable(wanted: str, parameter: str) -> AnswerSchema:
    """The schema of a parameter, wider where it cannot be enforced. Raises InvalidAnswerSchema."""
    if not wanted:
        return AnswerSchema("")
    found = await READING.run(current_identity().tenant, partial(_enforceable, wanted))
    if isinstance(found, str):
        raise InvalidAnswerSchema(parameter, found)
    return found


@lru_cache(SCHEMAS_KEPT)
def _enforceable(text: str) -> AnswerSchema | str:
    """The schema, or what is wrong with it: an error would not be cached."""
    try:
        loose = loosened_object(parsed_schema(text))
    except UnusableSchema as error:
        return str(error)
    places = tuple(dict.fromkeys(notice.path for notice in loose.loosened))[:PLACES_MAX]
    try:
        checked_object(text)
    except UnusableSchema:
        return AnswerSchema(json.dumps(loose.schema), places)
    return AnswerSchema(text, places)

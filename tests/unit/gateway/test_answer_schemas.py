import asyncio
import json
from typing import Any

import pytest

from callers import make_identity
from episodes.admission.checks import check_spec
from gateway.chat.answer_schemas import AnswerSchema, _enforceable, enforceable
from gateway.errors import InvalidAnswerSchema
from podium.episodes.v1 import episode_pb2
from podium_kit.rpc.identity import acting_as

LOOK_AHEAD = r"^(?!\.)[^@]+@[^@]+$"
NODE = {"type": "object", "properties": {"parts": {"type": "array", "items": {"$ref": "#"}}}}
PYDANTIC_TREE = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name", "parts"],
        }
    },
    "$ref": "#/$defs/Node",
}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


async def read(schema: Any) -> AnswerSchema:
    with acting_as(make_identity()):
        return await enforceable(json.dumps(schema), "response_format")


@pytest.mark.parametrize(
    ("schema", "loosened"),
    [
        (NODE, ("$.$defs.root",)),
        (PYDANTIC_TREE, ("$.$defs.Node",)),
        (
            of(mail={"type": "string", "pattern": LOOK_AHEAD}, n={"type": "integer"}),
            ("$.properties.mail.pattern",),
        ),
        (of(day={"type": "string", "format": "weekday"}), ("$.properties.day.format",)),
        (of(at={"$ref": "https://example.com/place.json"}), ("$.properties.at.$ref",)),
        ({"properties": {"n": {"type": "integer"}}}, ()),
        (of(n={"type": "integer"}), ()),
    ],
)
async def test_what_an_answer_cannot_be_held_to_is_loosened_and_named(
    schema: dict[str, Any], loosened: tuple[str, ...]
) -> None:
    """Public reports 22 and 29."""
    found = await read(schema)
    assert found.loosened == loosened
    # The service of episodes takes it.
    check_spec(episode_pb2.EpisodeSpec(task="Where?", answer_json_schema=found.text))


async def test_what_can_be_enforced_stays_as_it_is() -> None:
    schema = of(kind={"oneOf": [{"const": "a"}, {"type": "string", "format": "date"}]})
    assert (await read(schema)).text == json.dumps(schema)
    kept = json.loads((await read(of(mail={"pattern": LOOK_AHEAD}, n={"minimum": 3}))).text)
    assert kept["properties"]["n"] == {"minimum": 3}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array"}, r"of response_format .* \$\.type: the root must be an object"),
        (of(a={"description": "x" * 65_536}), "at most 65536"),
    ],
)
async def test_what_no_answer_can_be_held_to_is_rejected_by_its_parameter(
    schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidAnswerSchema, match=problem) as rejected:
        await read(schema)
    assert rejected.value.metadata["param"] == "response_format"


async def test_others_are_served_while_a_costly_schema_is_read() -> None:
    alternatives = {"anyOf": [{}] * 50, "type": ["string", "object", "array"]}
    reading = asyncio.create_task(read(of(**{f"p{at}": alternatives for at in range(50)})))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    # On the event loop itself it would have been done after one.
    assert turns > 10
    assert (await reading).loosened == ("$",)


async def test_the_places_of_a_long_name_take_little_memory() -> None:
    """Each of 2,000 places below one name of 32,000 characters would name it again."""
    schema = of(**{"n" * 32_000: of(**{f"{number:x}": 1 for number in range(2_000)})})
    few = of(**{f"{number:x}": {"type": "string", "format": "odd"} for number in range(500)})
    for wanted in (schema, few):
        answer = await read(wanted)
        assert answer.loosened
        assert sum(map(len, answer.loosened)) < 50_000


async def test_an_unusable_schema_is_read_once() -> None:
    schema = {"type": "array", "title": "read once"}
    misses = _enforceable.cache_info().misses
    for _ in range(3):
        with pytest.raises(InvalidAnswerSchema, match="must be an object"):
            await read(schema)
    assert _enforceable.cache_info().misses == misses + 1

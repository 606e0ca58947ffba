"""Schemas of strangers become schemas that can be enforced, and never narrower ones."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

from podium_kit.json_schemas.checks import checked_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.loosening import VALUES_MAX, LooseSchema, loosened, loosened_object
from podium_kit.json_schemas.validators import validator_of

LISTS = Path(__file__).parents[3] / "data" / "mcp_tool_lists.json"
REAL_SCHEMAS = [
    pytest.param(tool[part], id=f"{server}-{tool['name']}-{part}")
    for server, tools in json.loads(LISTS.read_text()).items()
    for tool in tools
    for part in ("inputSchema", "outputSchema")
    if part in tool
]
ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9-]*\.)+[A-Za-z]{2,}$"
DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def accepts(loose: LooseSchema, value: Any) -> bool:
    checked_schema(json.dumps(loose.schema))
    return validator_of(loose.schema).is_valid(value)


@pytest.mark.parametrize("schema", REAL_SCHEMAS)
def test_the_schemas_of_published_servers_are_kept_whole(schema: dict[str, Any]) -> None:
    """Public reports 28 and 77."""
    checked_schema(json.dumps(schema))
    loose = loosened_object(schema)
    assert loose.notices == ()
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert loose.schema == schema | (dialect if "$schema" in schema else {})


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_of_any_draft_is_one(draft: str) -> None:
    schema = {"$schema": draft, **of(x={"type": "string", "maxLength": 2})}
    checked_schema(json.dumps(schema))
    loose = loosened(schema)
    assert accepts(loose, {"x": "ab"}) and not accepts(loose, {"x": "abc"})


def test_keywords_of_older_drafts_mean_what_they_meant() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.com/order.json",
        **of(
            age={"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            pair={"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            item={"$ref": "#/definitions/item"},
            same={"$ref": "item.json"},
        ),
        "dependencies": {"age": ["pair"], "pair": {"required": ["item"]}},
        "definitions": {"item": {"id": "item.json", "type": "string"}},
    }
    loose = loosened(schema)
    assert loose.notices == ()
    good = {"age": 1, "pair": ["a"], "item": "x", "same": "y"}
    assert accepts(loose, good)
    wrong: list[dict[str, Any]] = [{"age": 0}, {"pair": ["a", "b"]}, {"item": 1}, {"same": 1}]
    for part in wrong:
        assert not accepts(loose, good | part), part
    assert not accepts(loose, {"age": 1})
    assert not accepts(loose, {"pair": ["a"]})


def test_a_pattern_with_a_lookahead_is_left_to_the_server_by_name() -> None:
    """Public report 22."""
    loose = loosened(of(mail={"type": "string", "format": "email", "pattern": ZOD_EMAIL}))
    assert loose.schema == of(mail={"type": "string", "format": "email"})
    [notice] = loose.notices
    assert notice.startswith("$.properties.mail.pattern is left to the tool's server: ")


@pytest.mark.parametrize(
    "schema",
    [
        of(value={"type": "string"}, kids={"type": "array", "items": {"$ref": "#"}}),
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/Node",
            "definitions": {
                "Node": of(
                    value={"type": "string"},
                    kids={"type": "array", "items": {"$ref": "#/definitions/Node"}},
                )
            },
        },
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            **of(value={"type": "string"}, kids={"items": {"$recursiveRef": "#"}}),
        },
        {
            "$dynamicAnchor": "node",
            **of(value={"type": "string"}, kids={"items": {"$dynamicRef": "#node"}}),
        },
    ],
    ids=["root", "definition", "recursiveRef", "dynamicRef"],
)
def test_a_schema_that_refers_to_itself_is_written_out_for_some_levels(
    schema: dict[str, Any],
) -> None:
    """Public report 29."""
    loose = loosened_object(schema)
    deep: dict[str, Any] = {"value": "leaf", "kids": []}
    for _ in range(10):
        deep = {"value": "node", "kids": [deep]}
    assert accepts(loose, deep)
    assert not accepts(loose, {"kids": [{"kids": [{"value": 1}]}]})
    assert any("refers to itself" in notice for notice in loose.notices)


LOOKAHEAD = {"type": "string", "pattern": "^(?!a)"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"not": LOOKAHEAD}, "abc"),
        ({"oneOf": [LOOKAHEAD, {"const": "abc"}]}, "abc"),
        ({"oneOf": [{"$ref": "#/definitions/none"}, {"type": "null"}]}, None),
        ({"oneOf": [LOOKAHEAD, {"const": "abc"}], "anyOf": [{}]}, "abc"),
        ({"if": LOOKAHEAD, "then": {"maxLength": 1}}, "abc"),
        ({"contains": LOOKAHEAD, "maxContains": 1}, ["abc", "bcd"]),
        ({"patternProperties": {"^(?=x)": {}}, "additionalProperties": False}, {"xy": 1}),
        ({"allOf": [{"$ref": "https://e.com/s"}], "unevaluatedProperties": False}, {"x": 1}),
        ({"not": {"not": {"$ref": "#"}}}, 1),
        ({"type": "any"}, 1),
        ({"required": True}, {}),
        ({"enum": []}, 1),
        ({"items": 4}, [1]),
        ({"properties": {"x": None}}, {"x": 1}),
        ({"oneOf": [{"format": "date"}, {"format": "email"}], "type": "string"}, "a@b.de"),
        ({"nullable": True, "type": "string", "enum": ["a"]}, None),
    ],
)
def test_what_the_original_accepts_stays_accepted(schema: dict[str, Any], value: Any) -> None:
    assert accepts(loosened(of(x=schema)), {"x": value})


def test_what_is_too_large_is_cut_from_the_inside() -> None:
    wordy = of(**{f"p{n}": {"type": "string", "description": "x" * 3_000} for n in range(60)})
    loose = loosened(wordy)
    assert accepts(loose, {"p1": "a"}) and not accepts(loose, {"p1": 1})
    assert "too large" in loose.notices[-1]
    # Each definition names all of them, so that their expansion is without bound.
    circles = {
        f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{to}"} for to in range(9)]} for at in range(9)
    }
    assert accepts(loosened({**of(x={"$ref": "#/$defs/d0"}), "$defs": circles}), {"x": 1})
    names = of(**{f"p{n}": {"enum": [f"{n}-{m}" for m in range(2_000)]} for n in range(60)})
    assert accepts(loosened(names), {"p1": "1-1"})


@pytest.mark.parametrize(
    "schema", [None, [], "object", {"type": "array"}, {"type": ["string", "null"]}]
)
def test_what_is_no_schema_of_arguments_is_unusable(schema: Any) -> None:
    with pytest.raises(UnusableSchema):
        loosened_object(schema)


def test_the_root_of_arguments_is_an_object_also_unsaid() -> None:
    written: list[Any] = [{}, {"properties": {}}, {"anyOf": [of(a={}), of(b={})]}, {"type": None}]
    for schema in written:
        assert loosened_object(schema).schema["type"] == "object"


def test_the_loosened_schema_accepts_what_a_validator_of_the_original_does() -> None:
    for case in REAL_SCHEMAS:
        schema: Any = case.values[0]
        assert isinstance(schema, dict)
        original = validator_for(schema)(schema)
        loose = validator_of(loosened(schema).schema)
        for value in ({}, {"path": "/x"}, {"a": 1, "b": 2}, {"message": "x"}):
            assert original.is_valid(value) == loose.is_valid(value)


def chain(length: int, **step: Any) -> dict[str, Any]:
    """Definitions of which each refers to the next one."""
    steps = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}], **step} for at in range(length)}
    return {**of(x={"$ref": "#/$defs/d0"}), "$defs": {**steps, f"d{length}": {}}}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(of(x={"minLength": float("inf")}), id="an infinite count"),
        pytest.param(of(x={"minimum": float("-inf")}), id="an infinite limit"),
        pytest.param(of(x={"enum": [1, float("nan")]}), id="a value that JSON does not have"),
        pytest.param(of(x={"default": float("inf")}), id="an infinite default"),
        pytest.param({**of(x={}), "$id": "http://[broken"}, id="an id that is no URL"),
        pytest.param(of(x={"$id": "http://[broken"}), id="an inner id that is no URL"),
        pytest.param(of(x={"$ref": "//[broken/#/x"}), id="a reference that is no URL"),
        pytest.param({5: {}, "properties": {"x": {}}, "type": "object"}, id="a numeric keyword"),
        pytest.param(chain(3_000), id="a long chain"),
        pytest.param(chain(200, allOf=[{"$ref": "#/$defs/d200"}]), id="a chain with branches"),
    ],
)
def test_what_is_broken_in_a_part_is_left_out(schema: Any) -> None:
    loose = loosened(schema)
    assert "x" in loose.schema["properties"]
    assert accepts(loose, {"x": 1}) and not accepts(loose, [])


@pytest.mark.parametrize(
    "schema",
    [
        of(**{f"p{at}": {"type": "string"} for at in range(VALUES_MAX)}),
        of(x={"enum": list(range(VALUES_MAX))}),
        {**of(x={"$ref": "#/$defs/a"}), "$defs": {"a": {"anyOf": [{}] * VALUES_MAX}}},
    ],
)
def test_a_schema_of_too_many_values_is_left_to_the_server(schema: Any) -> None:
    loose = loosened_object(schema)
    assert loose.schema == {"type": "object"}
    assert loose.notices == (f"$ is left to the tool's server: more than {VALUES_MAX:,} values",)
    assert loosened(schema).schema == {}


def test_notices_below_a_long_name_do_not_repeat_it() -> None:
    """A list of tools may have names of megabytes, and thousands of notices below them."""
    loose = loosened(of(**{"n" * 200_000: of(**{f"{number:x}": 1 for number in range(2_000)})}))
    assert loose.loosened
    assert sum(len(notice.path) for notice in loose.loosened) < 1_000_000


def test_patterns_that_are_too_large_together_are_left_to_the_server() -> None:
    """Patterns of 64 KiB took seconds, as often as the schema was cut."""
    costly = [f"[\u0100-\uffff]{{300}}{number}" for number in range(1_000)]
    texts = of(**{f"p{at}": {"type": "string", "pattern": one} for at, one in enumerate(costly)})
    loose = loosened(texts)
    assert "pattern" in loose.schema["properties"]["p0"]
    assert loose.schema["properties"]["p999"] == {"type": "string"}
    assert "too large together" in str(loose.loosened[-1])
    with pytest.raises(UnusableSchema, match="too large together"):
        checked_schema(json.dumps(texts, ensure_ascii=False))
    of_names: dict[str, Any] = {one: {} for one in costly}
    names = {"type": "object", "patternProperties": of_names, "additionalProperties": False}
    assert accepts(loosened(names), {"of no pattern": 1})


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_url_is_not_asked(keyword: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hang"
        with pytest.raises(Unresolvable):
            validator_of({"if": True, "then": {keyword: url}}).is_valid({})
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_file_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text(json.dumps(True))
    with pytest.raises(Unresolvable):
        validator_of({"$ref": file.as_uri()}).is_valid({})


def test_what_a_schema_holds_is_found() -> None:
    schema = {"$ref": "#/$defs/whole", "$defs": {"whole": {"type": "integer"}}}
    assert validator_of(schema).is_valid(1)
    assert not validator_of(schema).is_valid("1")

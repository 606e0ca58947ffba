import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.grammar_values import grammar_values
from builders.orchestrator import make_completion, make_tool
from builders.smallest_instance import smallest_instance
from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.action.schema import (
    ActionOptions,
    Bounds,
    action_schema,
    build_constraint,
)
from orchestrator_inference.errors import InvalidAnswerSchema, InvalidToolSchema
from orchestrator_inference.models import PromptTool, ResultSection, TurnRules
from podium_kit.text import storable
from tool_registry.errors import InvalidSchema
from tool_registry.tools.checks import check_parameters_schema

NAMES = st.sampled_from(["a", "unit", "type", "format", "größe", 'q"uote', "$ref", "x y"])
LEAVES = st.one_of(
    st.just({}),
    st.just(True),
    st.sampled_from(["string", "number", "integer", "boolean", "null"]).map(
        lambda kind: {"type": kind}
    ),
    st.just({"type": ["string", "null"], "minLength": 2, "pattern": "^x"}),
    st.just({"type": "string", "format": "date"}),
    st.just({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 10, "multipleOf": 2}),
    st.just({"type": "number", "minimum": -1e300, "maximum": 2}),
    st.just({"$ref": "#/$defs/point"}),
    st.just({"$ref": "#/$defs/tree"}),
    st.just({"allOf": [{"$ref": "#/$defs/point"}, {"required": ["z"]}]}),
    st.lists(st.one_of(st.text(), st.integers(), st.none()), min_size=1, max_size=4).map(
        lambda values: {"enum": values}
    ),
    st.text(max_size=5).map(lambda value: {"const": value}),
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.builds(lambda part: {"type": "array", "items": part, "minItems": 1}, inner),
        st.builds(lambda part: {"type": "array", "uniqueItems": True, "maxItems": 2}, inner),
        st.builds(lambda parts: {"prefixItems": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"oneOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"type": "object", "properties": parts}, members),
        st.builds(lambda part: {"type": "object", "additionalProperties": part}, inner),
    )


DEFS: dict[str, Any] = {
    "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    "tree": {
        "type": "object",
        "properties": {"child": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}},
    },
}
SCHEMAS = st.recursive(LEAVES, _composed, max_leaves=6)
TOOLS = st.dictionaries(
    st.sampled_from(["calculator", "search", "größe", "a-b.c"]),
    st.dictionaries(NAMES, SCHEMAS, max_size=3),
    min_size=1,
    max_size=3,
).map(lambda tools: [make_tool(name, parts, defs=DEFS) for name, parts in tools.items()])
OPTIONS = st.builds(
    ActionOptions,
    max_tokens=st.integers(16, 4096),
    rules=st.builds(TurnRules, must_answer=st.booleans()),
    parallel_calls_max=st.integers(1, 3),
    bounds=st.sampled_from(Bounds),
)
KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "enum", "const", "items"),
    *("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "anyOf"),
    *("format", "maxProperties"),
}


def keywords(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    parts += [schema.get("items"), schema.get("additionalProperties")]
    return found.union(*(keywords(part) for part in parts))


@given(TOOLS, OPTIONS, st.data())
@settings(suppress_health_check=list(HealthCheck), max_examples=60)
def test_every_text_the_grammar_allows_is_an_action(
    tools: list[PromptTool], options: ActionOptions, data: st.DataObject
) -> None:
    schema = action_schema(tools, options)
    value = data.draw(grammar_values(schema))
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    action = parse_action(
        make_completion(text),
        {tool.name for tool in tools},
        options.parallel_calls_max,
        options.rules,
    )
    assert action.malformed is None
    if "answer" in value:
        assert action.final_answer is not None
    else:
        calls = value.get("calls", [value])
        assert [call.arguments_json for call in action.calls] == [
            storable(json.dumps(call["arguments"], ensure_ascii=False, separators=(",", ":")))
            for call in calls
        ]


@given(TOOLS, OPTIONS)
@settings(max_examples=60)
def test_the_grammar_uses_only_keywords_its_compiler_knows(
    tools: list[PromptTool], options: ActionOptions
) -> None:
    schema = action_schema(tools, options)
    assert keywords(schema) <= KEYWORDS
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(smallest_instance(schema), schema)


@given(TOOLS, OPTIONS)
@settings(max_examples=20)
def test_same_tools_and_options_give_the_same_bytes(
    tools: list[PromptTool], options: ActionOptions
) -> None:
    assert build_constraint(tools, options) == build_constraint(tools, options)


def test_grammars_that_differ_only_in_white_space_have_different_digests() -> None:
    compact = build_constraint([make_tool()], ActionOptions(512))
    spaced = build_constraint([make_tool()], ActionOptions(512, any_whitespace=True))
    assert compact.schema_json == spaced.schema_json
    assert compact.digest != spaced.digest


def test_the_last_turn_may_call_what_gives_the_answer() -> None:
    rules = TurnRules(must_answer=True, answering=("search",))
    schema = action_schema([make_tool(), make_tool("search")], ActionOptions(512, rules))
    call, answer = schema["anyOf"]
    assert call["properties"]["tool"] == {"const": "search"}
    assert "answer" in answer["properties"]


def test_must_answer_leaves_only_the_answer() -> None:
    schema = action_schema([make_tool()], ActionOptions(512, TurnRules(must_answer=True)))
    assert list(schema["properties"]) == ["thought", "answer"]


def test_must_call_leaves_only_those_calls() -> None:
    rules = TurnRules(must_call=("b",))
    schema = action_schema([make_tool("a"), make_tool("b")], ActionOptions(512, rules))
    assert schema["properties"]["tool"] == {"const": "b"} and "answer" not in schema["properties"]


def test_an_answer_has_the_shape_of_its_schema() -> None:
    own = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    schema = action_schema([], ActionOptions(512, TurnRules(answer_schema=own)))
    assert schema["properties"]["answer"]["required"] == ["n"]
    jsonschema.validate({"thought": "", "answer": {"n": 3}}, schema)
    with pytest.raises(InvalidAnswerSchema, match="the root must be of type object"):
        action_schema([], ActionOptions(512, TurnRules(answer_schema='{"type": "array"}')))


def test_a_schema_nested_too_deep_for_a_grammar_takes_scalars_there() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    schema = action_schema([make_tool("nested", deep["properties"])], ActionOptions(512))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.dumps(schema).count('"a"') < 30


def test_all_tools_together_have_a_bound() -> None:
    wide = {f"argument_{at}": {"type": "string"} for at in range(2000)}
    tools = [make_tool(f"wide_{at}", wide) for at in range(12)]
    assert build_constraint(tools[:1], ActionOptions(512)).schema
    with pytest.raises(InvalidToolSchema, match="written out"):
        build_constraint(tools, ActionOptions(512))


def test_an_argument_fits_the_tools_own_schema() -> None:
    own = {"unit": {"enum": ["km", "mi"]}, "n": {"type": "integer", "exclusiveMinimum": 3}}
    schema = action_schema([make_tool("convert", own)], ActionOptions(512))
    value = smallest_instance(schema)
    assert value == {"tool": "convert", "arguments": {"unit": "km", "n": 4}}


@pytest.mark.parametrize(("declared", "most"), [({"maxItems": 0}, 0), ({"maxItems": 3}, 3)])
def test_a_list_has_at_most_the_items_it_may(declared: dict[str, int], most: int) -> None:
    own = {"tags": {"type": "array", "items": {"type": "string"}, **declared}}
    schema = action_schema([make_tool("tag", own)], ActionOptions(512))
    tags = schema["anyOf"][0]["properties"]["arguments"]["properties"]["tags"]
    assert (tags["minItems"], tags["maxItems"]) == (0, most)


def test_code_keeps_its_newlines_until_a_reply_was_cut() -> None:
    tool = make_tool("python", {"code": {"type": "string"}}, section=ResultSection.CODE)

    def code(bounds: Bounds) -> dict[str, Any]:
        schema = action_schema([tool], ActionOptions(512, bounds=bounds))
        code: dict[str, Any] = schema["anyOf"][0]["properties"]["arguments"]["properties"]["code"]
        return code

    assert code(Bounds.PROSE) == {"type": "string"}
    assert code(Bounds.CODE) == {"type": "string", "maxLength": 512}


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON Schema"),
        ('{"type": "array"}', "the root must be of type object"),
        ('{"properties": {"a": {"type": "text"}}}', "not a JSON Schema"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "is not local"),
        ('{"properties": {"a": {"$ref": "#/$defs/b"}}}', "points to nothing"),
    ],
)
def test_a_schema_that_is_none_is_rejected_with_the_tools_name(parameters: str, why: str) -> None:
    tool = PromptTool("broken", "", parameters)
    with pytest.raises(InvalidToolSchema, match=f"parameters of tool broken: .*{why}"):
        build_constraint([tool], ActionOptions(512))


TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
SIZES = st.integers(0, 10**12)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(["a", "b", "default", "$ref"]), inner, max_size=3)
    listed = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
            "properties": named,
            "required": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": listed,
            "anyOf": listed,
            "oneOf": listed,
            "allOf": listed,
            "not": inner,
            "enum": st.lists(SCALARS, max_size=3),
            "const": SCALARS,
            "minItems": SIZES,
            "maxItems": SIZES,
            "minLength": SIZES,
            "maxLength": SIZES,
            "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "exclusiveMaximum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "format": st.sampled_from(["date", "email", "teapot"]),
            "pattern": st.sampled_from(["^a+$", "[0-9]"]),
            "$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#/$defs/A/allOf/0"]),
        },
    )


ANY_SCHEMAS = st.recursive(st.booleans() | nested(st.just({})), nested, max_leaves=6)
ROOTS = st.builds(
    lambda root, a, b: {**root, "type": "object", "$defs": {"A": a, "B": b}},
    nested(ANY_SCHEMAS),
    ANY_SCHEMAS,
    ANY_SCHEMAS,
)


@given(ROOTS)
@settings(max_examples=100, deadline=None)
def test_a_schema_that_the_registry_takes_is_offered(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    try:
        check_parameters_schema(text)
    except InvalidSchema:
        return
    offered(text)


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "#/$defs/Any"},
        {"$ref": "#/$defs/Both/allOf/0"},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
    ],
)
def test_what_no_grammar_can_say_is_left_to_the_adapter(value: dict[str, Any]) -> None:
    definitions = {"Any": True, "Both": {"allOf": [{"type": "string"}]}}
    schema = {"type": "object", "properties": {"value": value}, "$defs": definitions}
    text = json.dumps(schema)
    check_parameters_schema(text)
    assert len(offered(text)) < 10_000


def offered(text: str) -> str:
    tool = PromptTool(
        name="tool",
        description="A tool.",
        parameters_json_schema=text,
    )
    return build_constraint([tool], ActionOptions(max_tokens=512)).schema_json

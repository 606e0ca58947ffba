import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from builders.openapi import only, schema_of
from podium.registry.v1 import tool_pb2
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.rpc.bounds import OutOfBounds
from podium_kit.tool_kinds import HTTP
from podium_kit.tool_kinds.checks import InvalidTool
from tool_registry.errors import InvalidSchema
from tool_registry.tools.checks import check_parameters_schema, check_tool
from tool_registry.tools.convert import ToolModelCapabilities, new_spec_from_proto


def fault(schema: Any) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as caught:
        check_parameters_schema(schema if isinstance(schema, str) else json.dumps(schema))
    return caught.value


def with_property(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


def doubling(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(steps)
    }
    definitions[f"d{steps}"] = {"type": "string"}
    return {**with_property(**{"$ref": "#/$defs/d0"}), "$defs": definitions}


def test_a_schema_may_use_local_definitions_more_than_once() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/p"}, "b": {"$ref": "#/$defs/p"}},
        "$defs": {"p": {"type": "string"}},
    }
    assert check_parameters_schema(json.dumps(schema)) == schema


def test_data_and_names_that_look_like_references_are_none() -> None:
    schema = with_property(enum=[{"$ref": "#/nowhere"}], default={"$ref": "#"})
    schema["properties"]["$ref"] = {"type": "string"}
    assert check_parameters_schema(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("{", "$"),
        ("[]", "$"),
        ('{"type": "object", "maximum": NaN}', "$"),
        ({"type": "array"}, "$.type"),
        ({}, "$.type"),
        (with_property(type="strin"), "$.properties.x.type"),
        (with_property(pattern="("), "$.properties.x.pattern"),
        (with_property(pattern="^(?=a)"), "$.properties.x.pattern"),
        (with_property(patternProperties={r"(a)\1": {}}), "$.properties.x.patternProperties"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"}, "$.$schema"),
        ({"type": "object", "$schema": 7}, "$.$schema"),
        (with_property(**{"$schema": "https://example.com/own"}), "$.properties.x.$schema"),
        # Valid in the draft that it names, and another thing in 2020-12.
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                **with_property(items=[{"type": "string"}]),
            },
            "$.properties.x.items",
        ),
        (with_property(**{"$ref": "https://example.com/s.json"}), "$.properties.x.$ref"),
        (with_property(**{"$ref": "#/$defs/none"}), "$.properties.x.$ref"),
        (with_property(**{"$ref": "#"}), "$.properties.x.$ref"),
        (with_property(**{"$dynamicRef": "#x"}), "$.properties.x.$dynamicRef"),
        (with_property(**{"$id": "https://example.com/"}), "$.properties.x.$id"),
        (doubling(20), "$.$defs.d8"),
    ],
)
def test_a_fault_is_named_by_its_path(schema: Any, path: str) -> None:
    assert fault(schema).metadata["path"] == path


def test_references_in_a_circle_are_rejected() -> None:
    schema = with_property(**{"$ref": "#/$defs/a"})
    schema["$defs"] = {
        "a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
        "b": {"properties": {"a": {"$ref": "#/$defs/a"}}},
    }
    assert "recursive" in fault(schema).message


def test_a_schema_over_64_kb_is_rejected() -> None:
    assert "bytes" in fault(with_property(description="x" * 65_536)).message


@pytest.mark.parametrize("levels", [70, 5_000])
def test_a_schema_too_deep_to_walk_is_rejected(levels: int) -> None:
    text = '{"not":' * levels + "{}" + "}" * levels
    assert "nested deeper" in fault(text).message


SECRET = tool_pb2.SecretRef(name="key")
HEADER = tool_pb2.PARAMETER_LOCATION_HEADER
NAMES = ("Transfer-Encoding", "content-length", "Host", "Expect", "TE", "Proxy-Connection", "a b")


def check(url: str = "https://api.example/x", schema: Any = None, **fields: Any) -> None:
    http = tool_pb2.HttpConnection(method="POST", url_template=url, **fields)
    spec = tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=http))
    if schema is not None:
        spec.parameters_json_schema = json.dumps(schema)
    HTTP.check(spec)


@pytest.mark.parametrize("name", NAMES)
def test_no_place_of_a_manifest_names_a_header_of_the_connection(name: str) -> None:
    for fields in (
        {"headers": {name: "chunked"}},
        {"secret": SECRET, "secret_header": name},
        {"parameter_locations": {name: HEADER}},
        {"parameter_locations": {"x": HEADER}, "wire_names": {"x": name}},
    ):
        with pytest.raises(InvalidTool, match=r"belongs to the connection|no name of a header"):
            check(**fields)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0"])
def test_constant_text_of_a_header_is_one_line(value: str) -> None:
    for fields in (
        {"headers": {"X-Note": value}},
        {"secret": SECRET, "secret_header": "X-Key", "secret_prefix": value},
    ):
        with pytest.raises(InvalidTool, match="use one line"):
            check(**fields)


@pytest.mark.parametrize("url", ["https://api.example/a b", "https://api.example/\r\nHost: x"])
def test_a_url_is_one_word(url: str) -> None:
    with pytest.raises(InvalidTool, match="percent-encoded"):
        check(url)


def test_other_headers_are_the_tools() -> None:
    check(
        headers={"X-Api.Version": "2024-01, b", "Accept": "text/plain", "Content-Type": "text/csv"},
        parameter_locations={"If-Match": HEADER, "host": tool_pb2.PARAMETER_LOCATION_QUERY},
    )


def test_documents_that_describe_framing_lose_the_parameter_and_keep_the_operation() -> None:
    names = ("Content-Length", "Host", "Expect", "X-Kept")
    parameters = [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    assert set(schema_of(only({"parameters": parameters}))["properties"]) == {"X-Kept", "id"}


KEY = tool_pb2.SecretRef(name="key")
OAUTH2: dict[str, Any] = {
    "token_url": "https://login.example/token",
    "client_id": "podium",
    "client_secret": KEY,
}


@pytest.mark.parametrize(
    "auth",
    [
        tool_pb2.HttpAuth(bearer=KEY),
        tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="", password=KEY)),
        tool_pb2.HttpAuth(query=tool_pb2.QueryAuth(parameter="key", secret=KEY)),
        tool_pb2.HttpAuth(oauth2_client_credentials=tool_pb2.OAuth2ClientCredentials(**OAUTH2)),
    ],
    ids=lambda auth: auth.WhichOneof("method"),
)
def test_every_way_that_names_its_secret_is_accepted(auth: tool_pb2.HttpAuth) -> None:
    check(auth=auth)


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (tool_pb2.HttpAuth(), "auth.method is unset"),
        (tool_pb2.HttpAuth(bearer=tool_pb2.SecretRef()), "bearer.name is unset"),
        (tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="a")), "password.name is unset"),
        *(
            (
                tool_pb2.HttpAuth(
                    oauth2_client_credentials=tool_pb2.OAuth2ClientCredentials(**(OAUTH2 | wrong))
                ),
                words,
            )
            for wrong, words in (
                ({"token_url": "login.example"}, "token_url"),
                ({"token_url": "https://login.example:65536/"}, "is not a URL: Port out of range"),
                ({"token_url": "https://login.example:0/"}, "is not an http or https URL"),
                ({"token_url": "https://ada:pw@login.example/"}, "holds credentials"),
                ({"client_secret": tool_pb2.SecretRef()}, "client_secret.name is unset"),
            )
        ),
    ],
)
def test_a_way_that_lacks_something_is_rejected_by_its_name(
    auth: tool_pb2.HttpAuth, words: str
) -> None:
    with pytest.raises(InvalidTool, match=words):
        check(auth=auth)


def test_two_ways_at_once_are_rejected() -> None:
    with pytest.raises(InvalidTool, match="give one of them"):
        check(auth=tool_pb2.HttpAuth(bearer=KEY), secret=KEY, secret_header="X-Api-Key")


PATH = tool_pb2.PARAMETER_LOCATION_PATH


CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("url", "schema", "problem"),
    [
        ("https://api.example/{town}", CITY, "no parameter is named town; parameters has city"),
        ("https://api.example/{citty}", CITY, r"did you mean \{city\}\?"),
        ("https://api.example/{city}", {"type": "object"}, "parameters has no properties"),
        ("https://api.example/x?q={town}", CITY, "no parameter is named town"),
        ("https://{city}.example/x", CITY, "the host must not hold"),
    ],
)
def test_a_placeholder_without_its_parameter_is_rejected(
    url: str, schema: Any, problem: str
) -> None:
    with pytest.raises(InvalidTool, match=problem):
        check(url, schema)


def test_an_argument_of_the_path_without_its_placeholder_is_rejected() -> None:
    with pytest.raises(InvalidTool, match=r"url_template has no \{city\}"):
        check("https://api.example/x", CITY, parameter_locations={"city": PATH})


def test_what_fits_is_registered() -> None:
    check("https://api.example/{city}", CITY)
    check("https://api.example/x", CITY)
    check("https://api.example/{town}", CITY, wire_names={"city": "town"})
    locations = {"city": PATH}
    check("https://api.example/{city}", CITY, parameter_locations=locations)
    # Arguments may come from elsewhere in the schema.
    check("https://api.example/{town}", {"type": "object", "allOf": [{"$ref": "#/x"}]})


TIB = 2**40


def register(memory_bytes: int = 0, **limits: Any) -> None:
    code = tool_pb2.CodeConnection(memory_bytes=memory_bytes)
    spec = tool_pb2.ToolSpec(
        name="run",
        kind=tool_pb2.TOOL_KIND_CODE,
        description="Runs code.",
        parameters_json_schema='{"type": "object"}',
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
        connection=tool_pb2.Connection(code=code),
        limits=tool_pb2.ToolLimits(**limits),
    )
    check_tool(new_spec_from_proto(spec), shared=False)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"max_output_bytes": TIB}, "limits.max_output_bytes"),
        ({"max_concurrency": 1_000_000}, "limits.max_concurrency"),
        ({"max_attempts": 11}, "limits.max_attempts"),
        ({"timeout": Duration(seconds=3601)}, "limits.timeout"),
        ({"memory_bytes": TIB}, "connection.code.memory_bytes"),
        ({"max_output_bytes": -1}, "limits.max_output_bytes"),
        ({"max_concurrency": -1}, "limits.max_concurrency"),
        ({"timeout": Duration(seconds=-1)}, "limits.timeout"),
        ({"memory_bytes": -1}, "connection.code.memory_bytes"),
    ],
)
def test_a_limit_beyond_the_platforms_is_rejected_with_what_to_give(
    limits: dict[str, Any], field: str
) -> None:
    with pytest.raises(OutOfBounds, match=f"^{field} is .*; give 0 to "):
        register(**limits)


def test_each_limit_may_be_left_out_or_be_the_highest() -> None:
    register()
    register(
        memory_bytes=4 * 2**30,
        max_output_bytes=16 * 2**20,
        max_concurrency=256,
        max_attempts=10,
        timeout=Duration(seconds=3600),
    )


def make_tool(sku: str) -> tool_pb2.ToolSpec:
    return tool_pb2.ToolSpec(
        name="translate",
        description="Translates.",
        kind=tool_pb2.TOOL_KIND_FUNCTION,
        connection=tool_pb2.Connection(function=tool_pb2.FunctionConnection(function="f")),
        parameters_json_schema='{"type": "object"}',
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
        sku=sku,
    )


def test_a_shared_tool_has_no_sku_that_tenants_price() -> None:
    with pytest.raises(InvalidTool, match=r"own/translate .* without 'own/', like tool/translate"):
        check_tool(new_spec_from_proto(make_tool("own/translate")), shared=True)
    check_tool(new_spec_from_proto(make_tool("tool/translate")), shared=True)


def test_a_tenants_tool_may_have_either() -> None:
    for sku in ("own/translate", "tool/translate"):
        check_tool(new_spec_from_proto(make_tool(sku)), shared=False)


def test_a_model_of_a_family_that_is_gone_shows_no_capabilities(tmp_path: Path) -> None:
    path = tmp_path / "families.yaml"
    path.write_text("families: {own: {hosts: [llm.example.com]}}")
    capabilities = ToolModelCapabilities(ModelFamiliesFile(path))
    spec = tool_pb2.ToolSpec()
    for alias, family in (("stays", ""), ("gone", "old")):
        model = spec.connection.llm.models.add(alias=alias, base_url="https://llm.example.com/v1")
        model.capabilities.family = family
    found = capabilities.of(spec)
    assert {alias: known.family for alias, known in found.items()} == {"stays": "own"}

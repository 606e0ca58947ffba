from typing import Any

import pytest

from openapi_builders import only, schema_of
from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds import HTTP
from podium_kit.tool_kinds.errors import InvalidTool

SECRET = tool_pb2.SecretRef(name="key")
HEADER = tool_pb2.PARAMETER_LOCATION_HEADER
NAMES = ("Transfer-Encoding", "content-length", "Host", "Expect", "TE", "Proxy-Connection", "a b")


def check(url: str = "https://api.example/x", **fields: Any) -> None:
    http = tool_pb2.HttpConnection(method="POST", url_template=url, **fields)
    HTTP.check(tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=http)))


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

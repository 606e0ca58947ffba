import json
from typing import Any

import pytest

from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds import HTTP
from podium_kit.tool_kinds.errors import InvalidTool

PATH = tool_pb2.PARAMETER_LOCATION_PATH


def check(url: str, schema: Any, **fields: Any) -> None:
    http = tool_pb2.HttpConnection(method="GET", url_template=url, **fields)
    connection = tool_pb2.Connection(http=http)
    text = json.dumps(schema)
    HTTP.check(tool_pb2.ToolSpec(connection=connection, parameters_json_schema=text))


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

import json
import re
from difflib import get_close_matches

from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds.checks import (
    InvalidTool,
    check_header,
    check_headers,
    check_url,
    require,
)
from podium_kit.tool_kinds.kind import ToolKind

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
NAMES_SHOWN_MAX = 20
# Keywords that may add arguments beside `properties`.
COMPOSITION = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"}


def _check(spec: tool_pb2.ToolSpec) -> None:
    _check_http(spec.connection.http)
    _check_placeholders(spec.connection.http, spec.parameters_json_schema)


def _check_http(http: tool_pb2.HttpConnection) -> None:
    check_url("connection.http.url_template", http.url_template)
    for name, location in http.parameter_locations.items():
        if location == tool_pb2.PARAMETER_LOCATION_UNSPECIFIED:
            raise InvalidTool(f"connection.http.parameter_locations of {name} is unset")
        if location == tool_pb2.PARAMETER_LOCATION_HEADER:
            wire_name = http.wire_names.get(name, name)
            check_header(f"connection.http.parameter_locations of {name}", wire_name)
    text = http.body_encoding == tool_pb2.BODY_ENCODING_TEXT
    if text and not http.body_argument:
        raise InvalidTool("connection.http.body_encoding is text; name the body_argument")
    if http.body_argument and not text and http.body_encoding:
        raise InvalidTool("connection.http.body_argument is for JSON and text; a form has fields")
    if http.HasField("secret"):
        require("connection.http.secret.name", http.secret.name)
        require("connection.http.secret_header", http.secret_header)
    if http.HasField("auth"):
        _check_auth(http)
    names = [(header.name, header.prefix) for header in http.secret_headers]
    names += [(http.secret_header, http.secret_prefix)] if http.HasField("secret") else []
    check_headers("connection.http", http.headers, names)
    for at, parameter in enumerate(http.secret_parameters):
        require(f"connection.http.secret_parameters[{at}].secret.name", parameter.secret.name)


def _check_placeholders(http: tool_pb2.HttpConnection, schema: str) -> None:
    """Every {name} of the URL is an argument, and every argument of the path has its place."""
    _, _, rest = http.url_template.partition("://")
    host, _, path = rest.partition("/")
    if found := PLACEHOLDER.search(host):
        raise InvalidTool(f"connection.http.url_template: the host must not hold {found[0]}")
    arguments = _properties(schema)
    if arguments is None:
        return
    locations = http.parameter_locations
    wire_names = {http.wire_names.get(name, name): name for name in sorted(arguments)}
    for name in PLACEHOLDER.findall(path):
        if wire_names.get(name) is None:
            near = get_close_matches(name, wire_names, n=1)
            hint = (
                f"did you mean {{{near[0]}}}?" if near else f"parameters has {_listed(arguments)}"
            )
            raise InvalidTool(
                f"connection.http.url_template holds {{{name}}}, and no parameter is named "
                f"{name}; {hint}"
            )
    for wire_name, name in wire_names.items():
        placed = locations.get(name) == tool_pb2.PARAMETER_LOCATION_PATH
        if placed and f"{{{wire_name}}}" not in path:
            raise InvalidTool(
                f"connection.http.parameter_locations puts {name} into the path, and "
                f"url_template has no {{{wire_name}}}"
            )


def _properties(schema: str) -> set[str] | None:
    """Names of a schema's arguments; None where they are not written at its root."""
    try:
        root = json.loads(schema)
    except (ValueError, RecursionError):
        return None
    if not isinstance(root, dict) or COMPOSITION & set(root):
        return None
    properties = root.get("properties", {})
    return set(properties) if isinstance(properties, dict) else None


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)[:NAMES_SHOWN_MAX]) or "no properties"


def _check_auth(http: tool_pb2.HttpConnection) -> None:
    if http.HasField("secret"):
        raise InvalidTool("connection.http has a secret and auth; give one of them")
    auth, field = http.auth, "connection.http.auth"
    match auth.WhichOneof("method"):
        case "bearer":
            require(f"{field}.bearer.name", auth.bearer.name)
        case "basic":
            require(f"{field}.basic.password.name", auth.basic.password.name)
        case "query":
            require(f"{field}.query.secret.name", auth.query.secret.name)
        case "oauth2_client_credentials":
            _check_oauth2(f"{field}.oauth2_client_credentials", auth.oauth2_client_credentials)
        case _:
            raise InvalidTool(f"{field}.method is unset; leave auth out when there is none")


def _check_oauth2(field: str, oauth2: tool_pb2.OAuth2ClientCredentials) -> None:
    check_url(f"{field}.token_url", oauth2.token_url)
    require(f"{field}.client_secret.name", oauth2.client_secret.name)


HTTP = ToolKind("http", "one operation of an HTTP API", check=_check)

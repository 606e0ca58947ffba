"""Checks that a connection can be opened later, before it is stored.

Secrets are references; the places where one could be written out reject it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from urllib.parse import urlsplit

from podium.registry.v1 import tool_pb2
from podium_kit.attachments import MediaKind
from podium_kit.http_headers import header_problem
from podium_kit.wire.attachment import KIND_FROM_WIRE
from tool_registry.errors import InvalidTool

SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
NAMES_SHOWN_MAX = 20
# Keywords that may add arguments beside `properties`.
COMPOSITION = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"}
# What the transport of MCP writes itself.
MCP_HEADERS = {"accept", "accept-encoding", "content-type", "last-event-id"}
# An orchestrator and the one it calls.
DEPTH_MIN = 2


def check_connection(spec: tool_pb2.ToolSpec) -> None:
    """Checks the rules beyond the contract's bounds. Raises InvalidTool, naming the field."""
    connection = spec.connection
    match connection.WhichOneof("target"):
        case "http":
            _check_http(connection.http)
            _check_placeholders(connection.http, spec.parameters_json_schema)
        case "mcp":
            _check_mcp(connection.mcp)
        case "llm":
            _check_llm(connection.llm, gives_answer=spec.gives_answer)
        case "podium":
            _check_podium(spec)


def _check_http(http: tool_pb2.HttpConnection) -> None:
    _check_url("connection.http.url_template", http.url_template)
    for name, location in http.parameter_locations.items():
        if location == tool_pb2.PARAMETER_LOCATION_UNSPECIFIED:
            raise InvalidTool(f"connection.http.parameter_locations of {name} is unset")
        if location == tool_pb2.PARAMETER_LOCATION_HEADER:
            wire_name = http.wire_names.get(name, name)
            _check_header(f"connection.http.parameter_locations of {name}", wire_name)
    text = http.body_encoding == tool_pb2.BODY_ENCODING_TEXT
    if text and not http.body_argument:
        raise InvalidTool("connection.http.body_encoding is text; name the body_argument")
    if http.body_argument and not text and http.body_encoding:
        raise InvalidTool("connection.http.body_argument is for JSON and text; a form has fields")
    if http.HasField("secret"):
        _require("connection.http.secret.name", http.secret.name)
        _require("connection.http.secret_header", http.secret_header)
    if http.HasField("auth"):
        _check_auth(http)
    names = [(header.name, header.prefix) for header in http.secret_headers]
    names += [(http.secret_header, http.secret_prefix)] if http.HasField("secret") else []
    _check_headers("connection.http", http.headers, names)
    for at, parameter in enumerate(http.secret_parameters):
        _require(f"connection.http.secret_parameters[{at}].secret.name", parameter.secret.name)


def _check_headers(
    field: str, constant: Mapping[str, str], secret: Sequence[tuple[str, str]]
) -> None:
    """Constant headers hold no secret, and no two secrets are sent as one header.

    Of a secret there is the name of its header and the text before it.
    """
    for name, prefix in secret:
        _check_header(f"{field}.secret_headers", name, prefix)
    lower = [name.lower() for name, _ in secret if name.lower() != "cookie"]
    if twice := next((name for name in lower if lower.count(name) > 1), ""):
        raise InvalidTool(f"{field}.secret_headers: two secrets are sent as {twice}")
    for name, value in constant.items():
        _check_header(f"{field}.headers", name, value)
        if name.lower() in SECRET_HEADERS or name.lower() in lower:
            raise InvalidTool(f"{field}.headers must not hold {name}; use secret_headers")


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
            _require(f"{field}.bearer.name", auth.bearer.name)
        case "basic":
            _require(f"{field}.basic.password.name", auth.basic.password.name)
        case "query":
            _require(f"{field}.query.secret.name", auth.query.secret.name)
        case "oauth2_client_credentials":
            _check_oauth2(f"{field}.oauth2_client_credentials", auth.oauth2_client_credentials)
        case _:
            raise InvalidTool(f"{field}.method is unset; leave auth out when there is none")


def _check_oauth2(field: str, oauth2: tool_pb2.OAuth2ClientCredentials) -> None:
    _check_url(f"{field}.token_url", oauth2.token_url)
    _require(f"{field}.client_secret.name", oauth2.client_secret.name)


def _check_mcp(mcp: tool_pb2.McpConnection) -> None:
    _require("connection.mcp.tool_name", mcp.tool_name)
    match mcp.WhichOneof("transport"):
        case "stdio":
            pass
        case "http":
            _check_url("connection.mcp.http.url", mcp.http.url)
            names = [(header.name, header.prefix) for header in mcp.http.secret_headers]
            names += [("Authorization", "")] if mcp.http.HasField("secret") else []
            _check_headers("connection.mcp.http", mcp.http.headers, names)
            for name in (*mcp.http.headers, *(name for name, _ in names)):
                if name.lower() in MCP_HEADERS or name.lower().startswith("mcp-"):
                    raise InvalidTool(f"connection.mcp.http: {name} is written by MCP itself")
        case _:
            raise InvalidTool("connection.mcp.transport is unset; give stdio or http")


def _check_llm(llm: tool_pb2.LlmConnection, *, gives_answer: bool) -> None:
    embeds = llm.role == tool_pb2.LLM_ROLE_EMBEDDER
    if embeds and gives_answer:
        raise InvalidTool("gives_answer is set, but no episode gets an embedder; leave it out")
    for index, model in enumerate(llm.models):
        field = f"connection.llm.models[{index}]"
        if embeds != (model.api == tool_pb2.LLM_API_OPENAI_EMBEDDINGS) and model.api:
            raise InvalidTool(
                f"{field}.api does not fit connection.llm.role: the role embedder and the api"
                " openai_embeddings go together"
            )
        _check_url(f"{field}.base_url", model.base_url)
        _check_takes(f"{field}.takes", model, embeds=embeds)


def _check_takes(field: str, model: tool_pb2.LlmModel, *, embeds: bool) -> None:
    if embeds and model.takes:
        raise InvalidTool(f"{field} is set, but an embedder takes text alone; leave it out")
    if not set(model.takes) <= KIND_FROM_WIRE.keys():
        raise InvalidTool(f"{field} holds a kind that is unset; give {', '.join(MediaKind)}")
    if len(set(model.takes)) < len(model.takes):
        raise InvalidTool(f"{field} names a kind twice; name it once")


def _check_podium(spec: tool_pb2.ToolSpec) -> None:
    depth = spec.connection.podium.max_depth
    if depth and depth < DEPTH_MIN:
        raise InvalidTool(
            f"connection.podium.max_depth is {depth}; give {DEPTH_MIN} or more,"
            f" or 0 for {DEPTH_MIN}"
        )
    if spec.sku:
        raise InvalidTool("sku is set, but what a tool of kind podium calls has its own prices")


def _check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError as error:
        raise InvalidTool(f"{field} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.netloc or not has_port:
        raise InvalidTool(f"{field} {url!r} is not an http or https URL")
    if "@" in parts.netloc:
        raise InvalidTool(f"{field} holds credentials; use a secret")
    if not url.isprintable() or " " in url:
        raise InvalidTool(f"{field} holds a space or line break; write it percent-encoded")


def _check_header(field: str, name: str, value: str = "") -> None:
    if problem := header_problem(name, value):
        raise InvalidTool(f"{field}: {problem}")


def _require(field: str, value: str) -> None:
    if not value:
        raise InvalidTool(f"{field} is unset")

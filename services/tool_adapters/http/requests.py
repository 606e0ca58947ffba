import json
import re
from collections.abc import Mapping

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import FormField, HttpRequest
from tool_adapters.http.writing import cookies, form, header, path_part, query, text_of
from tool_adapters.models import ArgumentPlace, BodyEncoding, HttpConnection, JsonObject, Style

WITHOUT_BODY = {"GET", "DELETE", "HEAD"}
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


def request_of(connection: HttpConnection, arguments: JsonObject) -> HttpRequest:
    """The request of a call; an argument cannot leave its place. Raises CallFailed."""
    placed: dict[ArgumentPlace, JsonObject] = {place: {} for place in ArgumentPlace}
    for name, value in arguments.items():
        wire_name = connection.wire_names.get(name, name)
        placed[_place(connection, name)][wire_name] = value
    styles = {
        connection.wire_names.get(name, name): style for name, style in connection.styles.items()
    }
    url = _with_path(connection.url_template, placed[ArgumentPlace.PATH], styles)
    if asked := query(placed[ArgumentPlace.QUERY], styles):
        url = f"{url}{'&' if '?' in url else '?'}{asked}"
    sent = {
        name: _one_line(name, header(value, styles.get(name)))
        for name, value in placed[ArgumentPlace.HEADER].items()
    }
    if placed[ArgumentPlace.COOKIE]:
        sent["Cookie"] = cookies(placed[ArgumentPlace.COOKIE], styles)
    # The operation's own headers win over what the model wrote, however it is spelled.
    constant = {name.lower() for name in connection.headers}
    headers = {name: value for name, value in sent.items() if name.lower() not in constant}
    headers |= connection.headers
    method = connection.method.upper()
    if connection.body_argument:
        return _with_whole_body(connection, HttpRequest(method, url, headers), arguments)
    body = placed[ArgumentPlace.BODY]
    if not body and method in WITHOUT_BODY:
        return HttpRequest(method, url, headers)
    match connection.body_encoding:
        case BodyEncoding.FORM:
            return HttpRequest(method, url, headers, form=form(body, styles))
        case BodyEncoding.MULTIPART:
            return HttpRequest(method, url, headers, multipart=_fields(body, styles))
        case _:
            return HttpRequest(method, url, headers, json=body)


def _with_whole_body(
    connection: HttpConnection, request: HttpRequest, arguments: JsonObject
) -> HttpRequest:
    if connection.body_argument not in arguments:
        return request
    body = arguments[connection.body_argument]
    if connection.body_encoding is BodyEncoding.TEXT:
        return HttpRequest(
            request.method, request.url, request.headers, body=text_of(body).encode()
        )
    # Not by aiohttp's `json`, for which null is no body.
    headers = {"Content-Type": "application/json", **request.headers}
    return HttpRequest(request.method, request.url, headers, body=json.dumps(body).encode())


def _place(connection: HttpConnection, name: str) -> ArgumentPlace:
    if name in connection.places:
        return connection.places[name]
    if f"{{{name}}}" in connection.url_template:
        return ArgumentPlace.PATH
    return ArgumentPlace.QUERY if connection.method.upper() in WITHOUT_BODY else ArgumentPlace.BODY


def _with_path(template: str, values: JsonObject, styles: Mapping[str, Style]) -> str:
    """The URL; a value is one path segment, whatever is in it."""
    scheme, separator, rest = template.partition("://")
    host, slash, path = rest.partition("/")
    if _PLACEHOLDER.search(host):
        message = "the URL's host must not be a parameter"
        raise CallFailed(FailureKind.UNAVAILABLE, message, unsent=True)

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise _unusable(f"{match[1]} is needed for the path")
        segment = path_part(match[1], values[match[1]], styles.get(match[1]))
        if segment in {"", ".", ".."}:
            # Servers read these as another path, that is, another operation.
            raise _unusable(f"{match[1]} is {segment!r}, which cannot be part of a path")
        return segment

    return scheme + separator + host + slash + _PLACEHOLDER.sub(value_of, path)


def _fields(values: JsonObject, styles: Mapping[str, Style]) -> tuple[FormField, ...]:
    return tuple(
        FormField(name, text_of(item), is_file=styles.get(name) is Style.FILE)
        for name, value in values.items()
        for item in (value if isinstance(value, list) else [value])
    )


def _one_line(name: str, text: str) -> str:
    if not text.isprintable():
        raise _unusable(f"{name} goes into a header and must be one line of printable characters")
    return text


def _unusable(message: str) -> CallFailed:
    return CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True)

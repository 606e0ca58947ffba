import re
from typing import Any

from tool_registry.tools.openapi.arguments import Arguments, OpenApiSchemas
from tool_registry.tools.openapi.document import Node, OpenApiDocument, Unsupported

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
TEXT = re.compile(r"text/.+|application/(.+\+)?(xml|yaml|graphql|x-ndjson|jsonl|sql|toml)")
BODY = "body"
# Of fields whose encoding says so; others repeat the name of a list, and an object is JSON.
FORM_STYLES = {
    ("form", True): "exploded_object",
    ("form", False): "comma_separated",
    ("spaceDelimited", False): "space_separated",
    ("pipeDelimited", False): "pipe_separated",
    ("deepObject", True): "deep_object",
    ("deepObject", False): "deep_object",
}


class Bodies:
    """Adds bodies to arguments: as JSON where the operation takes it, else as a form or text."""

    def __init__(self, document: OpenApiDocument, schemas: OpenApiSchemas) -> None:
        self._document = document
        self._schemas = schemas

    def add(self, arguments: Arguments, body: Node) -> None:
        content = body.get("content")
        offered: Node = content if isinstance(content, dict) else {}
        needed = body.get("required") is True
        for is_of_kind, add in (
            (_is_json, self._add_json),
            (_is_form, self._add_form),
            (_is_text, self._add_text),
        ):
            for written, media in offered.items():
                if is_of_kind(media_type := _plain(written)):
                    add(arguments, media_type, media if isinstance(media, dict) else {}, needed)
                    return
        if needed:
            kinds = ", ".join(offered) or "of no media type"
            raise Unsupported(f"its body is {kinds}, which is no text")

    def _add_json(self, arguments: Arguments, _: str, media: Node, needed: bool) -> None:
        schema = media.get("schema", {})
        parts = self._schemas.object_of(schema) if isinstance(schema, dict) else None
        if parts is not None and parts[0]:
            properties, required = parts
            for name, part in properties.items():
                converted = self._schemas.converted(part, arguments.spot(name))
                arguments.add(name, converted, BODY, required=needed and name in required)
        elif parts is None or not self._is_empty(schema):
            converted = self._schemas.converted(schema, arguments.spot(BODY))
            arguments.whole_body = arguments.add(BODY, converted, BODY, required=needed)

    def _add_form(self, arguments: Arguments, media_type: str, media: Node, needed: bool) -> None:
        parts = self._schemas.object_of(media.get("schema", {}))
        if parts is None:
            raise Unsupported(f"its body is {media_type}, and no object or one of several")
        properties, required = parts
        arguments.body_encoding = "multipart" if media_type == MULTIPART else "form"
        encodings = media.get("encoding")
        for name, part in properties.items():
            encoding = encodings.get(name) if isinstance(encodings, dict) else None
            resolved = self._document.resolve(part) if isinstance(part, dict) else {}
            arguments.add(
                name,
                self._schemas.converted(part, arguments.spot(name)),
                BODY,
                required=needed and name in required,
                style=_form_style(resolved, encoding),
            )

    @staticmethod
    def _add_text(arguments: Arguments, media_type: str, _: Node, needed: bool) -> None:
        arguments.body_encoding = "text"
        arguments.headers["Content-Type"] = media_type
        schema = {"type": "string", "description": f"The whole body, as {media_type}."}
        arguments.whole_body = arguments.add(BODY, schema, BODY, required=needed)

    def _is_empty(self, schema: Node) -> bool:
        """True for an object that has no properties at all, rather than any."""
        return self._document.resolve(schema).get("additionalProperties") is False


def _form_style(schema: Node, encoding: Any) -> str:
    described = encoding if isinstance(encoding, dict) else {}
    named = described.get("style", "form")
    if "style" in described or "explode" in described:
        explode = described.get("explode", named == "form") is True
        if style := FORM_STYLES.get((named, explode)):
            return style
    items = schema.get("items")
    one = items if schema.get("type") == "array" and isinstance(items, dict) else schema
    binary = one.get("format") == "binary" or one.get("type") == "file"
    return "file" if binary or "contentMediaType" in one else ""


def _plain(media_type: str) -> str:
    return media_type.split(";", maxsplit=1)[0].strip().lower()


def _is_json(media_type: str) -> bool:
    named = media_type.startswith("application/") and media_type.endswith("+json")
    return named or media_type in ("application/json", "text/json", "*/*", "application/*")


def _is_form(media_type: str) -> bool:
    return media_type in (FORM, MULTIPART)


def _is_text(media_type: str) -> bool:
    return bool(TEXT.fullmatch(media_type))

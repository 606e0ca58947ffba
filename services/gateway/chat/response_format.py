import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ANY_OBJECT = '{"type": "object"}'


class Text(BaseModel):
    """Any text."""

    type: Literal["text"]


class JsonObject(BaseModel):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(BaseModel):
    """A JSON Schema with an object as its root."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = ""
    schema_: dict[str, Any] = Field({"type": "object"}, alias="schema")


class JsonSchema(BaseModel):
    """An object that fits a schema, whether `strict` or not."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Text | JsonObject | JsonSchema


def answer_schema(wanted: ResponseFormat | None) -> str:
    """The JSON Schema that the answer fits; "" takes any text."""
    if isinstance(wanted, JsonSchema):
        # Libraries name the draft that they write for; what they use of it is in all drafts.
        schema = {
            key: value for key, value in wanted.json_schema.schema_.items() if key != "$schema"
        }
        return json.dumps(schema)
    return ANY_OBJECT if isinstance(wanted, JsonObject) else ""

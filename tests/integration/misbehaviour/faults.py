from enum import StrEnum


class Fault(StrEnum):
    NOT_JSON = "not_json"
    WRONG_SCHEMA = "wrong_schema"
    HUNDRED_MEGABYTES = "hundred_megabytes"
    # As many, in the hundred kilobytes that gzip makes of them.
    PACKED = "packed"
    BINARY = "binary"
    HALF = "half"
    RESET = "reset"
    HANG = "hang"


TEAPOT = b"<html>I am a teapot"
MEBIBYTE = b"x" * (1 << 20)
# What a tool promises where its kind lets it promise something: a JSON Schema.
DEGREES = """{
  "type": "object",
  "properties": {"degrees": {"type": "string", "pattern": "^-?[0-9]+$"}},
  "required": ["degrees"]
}"""

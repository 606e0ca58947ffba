"""Messages as people and programs write them, checked field by field.

The base is protobuf's JSON form. Four things may be written shorter: an enum without its
prefix ("function"), money as "0.05 USD" or as a number of US dollars, a duration as "90s",
"5m" or a number of seconds, and a JSON Schema as a mapping under `parameters` or `result`.
YAML files of the command and bodies of the REST API are read by this module alone, so a
mistake has the same error in both.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from podium_kit.wire.json_values import enum_word
from podium_kit.wire.values import parse_length

F = FieldDescriptor
WHOLE_NUMBERS = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, 2**64 - 1)),
}
# A JSON Schema is written as a mapping under the first name, or as JSON text under the second.
SCHEMA_FIELDS = {"parameters": "parameters_json_schema", "result": "result_json_schema"}
WRITTEN_NAMES = {field: name for name, field in SCHEMA_FIELDS.items()}
# Presets are named as policies are (cost-first), events as webhooks' bodies name them
# (record.dead_lettered).
FIRST_SEPARATORS = {"PolicyPreset": "-", "WebhookEventType": "."}
SEPARATORS = {"PolicyPreset": "-"}
# Of enums: cost-first, "input fresh", episode.ended.
WORD_SEPARATORS = str.maketrans("-. ", "___")
SHOWN_CHARACTERS_MAX, SHOWN_NAMES_MAX = 60, 24
DIGITS_MAX = 30
# google.protobuf.Duration holds 10,000 years.
DURATION_S_MAX = 315_576_000_000


class InvalidField(ValueError):
    """A value that its field cannot hold: the field as written, the problem, and an example."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        self.problem = f"{field}: {problem}" if field else problem
        self.fix = fix
        super().__init__(f"{self.problem}; {fix}")


def merge_written(values: Mapping[str, Any], message: Message) -> None:
    strict = _fields(values, message.DESCRIPTOR, "")
    try:
        json_format.ParseDict(strict, message)
    except json_format.ParseError as error:
        # Every type has its check above; this covers what only the library knows.
        raise InvalidField("", " ".join(str(error).split()), "see the reference") from error


def enum_words(enum: EnumDescriptor) -> list[str]:
    first, between = FIRST_SEPARATORS.get(enum.name, "_"), SEPARATORS.get(enum.name, "_")
    words = (enum_word(each.name, _prefix(enum)) for each in enum.values[1:])
    return [word.replace(" ", first, 1).replace(" ", between) for word in words]


# The stubs know two kinds of Descriptor, hence Any.
def _fields(values: Mapping[str, Any], kind: Any, at: str) -> dict[str, Any]:
    strict: dict[str, Any] = {}
    # Copies: protobuf's own maps fail on keys that are no text.
    fields = {**kind.fields_by_camelcase_name, **kind.fields_by_name}
    for key, value in values.items():
        shown = str(key)[:SHOWN_CHARACTERS_MAX]
        path = f"{at}.{shown}" if at else shown
        schema = SCHEMA_FIELDS.get(key, key) if isinstance(key, str) else key
        name = schema if schema in kind.fields_by_name else key
        field = fields.get(name)
        if field is None:
            raise _unknown_field(path, shown, [each.name for each in kind.fields])
        if field.name in strict:
            raise InvalidField(path, "is given twice, under two names", "leave one of them out")
        if name != key:
            strict[name] = json.dumps(value)
            continue
        if value is None:
            continue
        if others := [each for each in strict if _exclude(fields[each], field)]:
            problem = f"excludes {others[0]}, which is given as well"
            raise InvalidField(path, problem, "leave one of them out")
        strict[field.name] = _field_value(value, field, path)
    return strict


def _exclude(one: FieldDescriptor, other: FieldDescriptor) -> bool:
    group = one.containing_oneof
    return one is not other and group is not None and group == other.containing_oneof


def _unknown_field(path: str, name: str, fields: Iterable[str]) -> InvalidField:
    known = sorted(WRITTEN_NAMES.get(each, each) for each in fields)
    near = get_close_matches(name, known, n=1)
    listed = ", ".join(known[:SHOWN_NAMES_MAX]) + (", …" if len(known) > SHOWN_NAMES_MAX else "")
    fix = f"did you mean {near[0]}? " if near else ""
    return InvalidField(path, "there is no such field", f"{fix}fields here: {listed}")


def _field_value(value: Any, field: FieldDescriptor, path: str) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            raise _wrong(path, value, "entries", f"{field.name}: {{name: value}}")
        inner = kind.fields_by_name["value"]
        return {_key(name): _single(each, inner, f"{path}.{name}") for name, each in value.items()}
    if not field.is_repeated:
        return _single(value, field, path)
    if isinstance(value, list):
        return [_single(each, field, f"{path}[{at}]") for at, each in enumerate(value)]
    example = f"[{_shown(value)}]" if _fits(value, field, path) else f"[{_example(field)}]"
    raise _wrong(path, value, "a list", f"{field.name}: {example}")


def _fits(value: Any, field: FieldDescriptor, path: str) -> bool:
    try:
        _single(value, field, path)
    except InvalidField:
        return False
    return True


def _key(name: Any) -> str:
    return str(name).lower() if isinstance(name, bool) else str(name)


def _single(value: Any, field: FieldDescriptor, path: str) -> Any:
    if field.enum_type is not None:
        return _enum(value, field.enum_type, path)
    if field.message_type is None:
        return _scalar(value, field, path)
    special = SPECIAL.get(field.message_type.full_name)
    if special is not None:
        return special(value, path)
    if field.message_type.full_name.startswith("google.protobuf."):
        return value
    if not isinstance(value, Mapping):
        raise _wrong(path, value, "a mapping", f"{field.name}: {_example(field)}")
    return _fields(value, field.message_type, path)


def _enum(value: Any, enum: EnumDescriptor, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise _wrong(path, value, "a word", f"one of {', '.join(enum_words(enum))}")
    return enum_name(value, enum, path)


def enum_name(value: str, enum: EnumDescriptor, path: str) -> str:
    words = enum_words(enum)
    prefix = _prefix(enum)
    name = value.upper().translate(WORD_SEPARATORS)
    name = name if name.startswith(prefix) else prefix + name
    if name in {**enum.values_by_name}:
        return name
    near = get_close_matches(value[:SHOWN_CHARACTERS_MAX].lower(), words, n=1)
    fix = f"did you mean {near[0]}? " if near else ""
    known = f"write one of {', '.join(words)}"
    raise InvalidField(path, f"there is no {_shown(value)}", fix + known)


def _prefix(enum: EnumDescriptor) -> str:
    return enum.values[0].name.removesuffix("UNSPECIFIED")


def _scalar(value: Any, field: FieldDescriptor, path: str) -> Any:
    if field.type == F.TYPE_BOOL:
        if not isinstance(value, bool):
            raise _wrong(path, value, "true or false", f"{field.name}: true")
    elif field.type == F.TYPE_STRING:
        if not isinstance(value, str):
            quoted = isinstance(value, int | float) and not isinstance(value, bool)
            example = f'"{value}"' if quoted else '"text"'
            raise _wrong(path, value, "text", f"{field.name}: {example}")
    elif field.type == F.TYPE_BYTES:
        _check_base64(value, path)
    elif field.type in WHOLE_NUMBERS:
        return _whole_number(value, field, path)
    else:
        return _number(value, field, path)
    return value


def _whole_number(value: Any, field: FieldDescriptor, path: str) -> int:
    least, most = WHOLE_NUMBERS[field.type]
    try:
        number = _read_int(value)
    except (ValueError, TypeError, OverflowError):
        raise _wrong(path, value, "a whole number", f"{field.name}: 3") from None
    if not least <= number <= most:
        problem = f"{_shown(value)} is not between {least} and {most}"
        raise InvalidField(path, problem, f"write it like {field.name}: 3")
    return number


def _read_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    if isinstance(value, str) and (len(value) > DIGITS_MAX or not value.isascii() or "_" in value):
        raise ValueError
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError
    return number


def _number(value: Any, field: FieldDescriptor, path: str) -> Any:
    """A float; the library reads the JSON form's "NaN" and "Infinity"."""
    example = f"{field.name}: 0.5"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(path, value, "a number", example)
    try:
        float(value)
    except (ValueError, OverflowError):
        raise _wrong(path, value, "a number", example) from None
    return value


def _check_base64(value: Any, path: str) -> None:
    try:
        # The JSON form takes the URL's alphabet and missing padding, too.
        text = value.replace("-", "+").replace("_", "/")
        base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        raise _wrong(path, value, "base64", "SGVsbG8=") from None


def _money(value: Any, path: str) -> Any:
    if isinstance(value, str):
        amount, _, currency = value.strip().removeprefix("$").partition(" ")
        return {"amount": amount, "currency_code": currency.strip().upper() or "USD"}
    # As a float a number of 400 digits is none.
    if type(value) is int or (isinstance(value, float) and math.isfinite(value)):
        return {"amount": f"{Decimal(str(value)):f}", "currency_code": "USD"}
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name not in ("amount", "currency_code", "currencyCode"):
                raise _unknown_field(f"{path}.{name}", str(name), ("amount", "currency_code"))
            if not isinstance(part, str):
                raise _wrong(f"{path}.{name}", part, "text", f'{name}: "{part}"')
        return value
    raise _wrong(path, value, "an amount of money", "0.05 USD")


def _duration(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(path, value, "a length of time", "90s, 5m or 1h")
    try:
        # The JSON form may have a sign, which the field's bounds reject or allow.
        text = str(value).removeprefix("-")
        seconds = parse_length(text) if isinstance(value, str) else Decimal(text)
        seconds = -seconds if text != str(value) else seconds
        if not abs(seconds) <= DURATION_S_MAX:
            raise ValueError
        return f"{round(seconds, 9):f}s"
    except (ValueError, ArithmeticError):
        raise _wrong(path, value, "a length of time", "90s, 5m or 1h") from None


def _timestamp(value: Any, path: str) -> Any:
    try:
        Timestamp().FromJsonString(value)
    except (ValueError, TypeError):
        raise _wrong(path, value, "a time", "2026-03-01T14:00:00Z") from None
    return value


def _field_mask(value: Any, path: str) -> str:
    """Names of fields as contracts write them; protobuf's own JSON has camelCase, which is read."""
    if not isinstance(value, str):
        raise _wrong(path, value, "names", f"{path.rpartition('.')[2]}: hard_limit,end_time")
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), value.replace(" ", ""))


SPECIAL: dict[str, Callable[[Any, str], Any]] = {
    "podium.common.v1.Money": _money,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": _field_mask,
    "google.protobuf.Timestamp": _timestamp,
}


def _example(field: FieldDescriptor) -> str:
    kind = field.message_type
    if field.enum_type is not None:
        return enum_words(field.enum_type)[0]
    if kind is None:
        if field.type in WHOLE_NUMBERS:
            return "3"
        return {F.TYPE_STRING: '"text"', F.TYPE_BOOL: "true"}.get(field.type, "0.5")
    if kind.full_name == "podium.common.v1.Money":
        return "0.05 USD"
    if not kind.fields or kind.full_name.startswith("google.protobuf."):
        return "{}"
    first = kind.fields[0]
    inner = "…" if first.message_type is not None else _example(first)
    inner = f"[{inner}]" if first.is_repeated else inner
    return f"{{{WRITTEN_NAMES.get(first.name, first.name)}: {inner}}}"


def _wrong(path: str, value: Any, expected: str, example: str) -> InvalidField:
    return InvalidField(path, f"{_shown(value)} is not {expected}", f"write it like {example}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 1]}…"

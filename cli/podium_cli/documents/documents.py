"""Tools, prices and policies as people write them: YAML in the JSON form of the contract.

A file holds one document, several separated by `---`, or one with a list of them. For
comfort an enum may lose its prefix ("function"), money may be "0.05 USD", and a JSON
Schema may be written as YAML under `parameters` or `result`.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from podium_cli.formats import one_line
from podium_kit.characters import whole_characters
from podium_kit.client.errors import UsageError
from podium_kit.json_yaml import JsonValues
from podium_kit.wire import enum_word

M = TypeVar("M", bound=Message)
SUFFIXES = (".yaml", ".yml", ".json")
SCHEMA_FIELDS = {"parameters": "parameters_json_schema", "result": "result_json_schema"}


class InvalidDocument(UsageError):
    """A file cannot be read as what it should be."""

    def __init__(self, path: Path, problem: str, fix: str = "") -> None:
        super().__init__(f"{path}: {problem}", fix or "fix the file; nothing was changed")


class UnknownWord(ValueError):
    """A field holds a word that its enum does not know."""

    def __init__(self, field: str, word: str, enum: EnumDescriptor) -> None:
        known = ", ".join(enum_words(enum))
        super().__init__(f"{field} is {word!r}; write one of {known}")


class UnknownField(ValueError):
    """A document has a field that its kind of message does not know."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no field {name!r}; write one of {', '.join(known)}")


def enum_words(enum: EnumDescriptor) -> list[str]:
    """What people write for the values of an enum, like "input_fresh".

    A preset is written as the policy of its name is: "cost-first".
    """
    prefix, between = _prefix(enum), "-" if enum.name == "PolicyPreset" else "_"
    return [enum_word(each.name, prefix).replace(" ", between) for each in enum.values[1:]]


def read_messages(path: Path, kind: type[M], list_key: str = "specs") -> list[tuple[Path, M]]:
    """Every document of a file, or of the files of a folder. Raises InvalidDocument."""
    read = []
    for file, message in read_each(path, kind, list_key):
        if isinstance(message, InvalidDocument):
            raise message
        read.append((file, message))
    return read


def read_each(
    path: Path, kind: type[M], list_key: str = "specs"
) -> Iterator[tuple[Path, M | InvalidDocument]]:
    """Every document, or what is wrong with it; a path that is none raises."""
    for file in _files(path):
        try:
            for values in _documents(file, _text(file), list_key):
                try:
                    yield file, message_of(file, values, kind)
                except InvalidDocument as problem:
                    yield file, problem
        except InvalidDocument as problem:
            yield file, problem


def read_only_message(path: Path, kind: type[M]) -> M:
    """The only document of a file. Raises InvalidDocument."""
    read = read_messages(path, kind)
    if len(read) != 1:
        raise InvalidDocument(path, f"holds {len(read)} documents instead of one")
    return read[0][1]


def read_message(path: Path, text: str, kind: type[M]) -> M:
    """The only document of a text; the path is for the error. Raises InvalidDocument."""
    documents = list(_documents(path, text, "specs"))
    if len(documents) != 1:
        raise InvalidDocument(path, f"holds {len(documents)} documents instead of one")
    return message_of(path, documents[0], kind)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise InvalidDocument(path, "the folder holds no .yaml or .json file", "check the path")
        return files
    if not path.is_file():
        raise InvalidDocument(path, "there is no such file or folder", "check the path")
    return [path]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDocument(path, "is not UTF-8", "save it as YAML or JSON in UTF-8") from error
    except OSError as error:
        raise InvalidDocument(path, f"cannot be read: {error.strerror}") from error


def _documents(path: Path, text: str, list_key: str) -> Iterator[dict[str, Any]]:
    try:
        loaded = yaml.load_all(text, _JsonLoader)
        documents = [_whole(document) for document in loaded]
    except yaml.YAMLError as error:
        raise InvalidDocument(path, f"is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise InvalidDocument(path, "is nested too deeply") from error
    for document in documents:
        listed = document.get(list_key, document) if isinstance(document, dict) else document
        for values in listed if isinstance(listed, list) else [listed]:
            if not isinstance(values, dict):
                raise InvalidDocument(
                    path, f"{one_line(repr(values), 60)} is not a mapping of fields"
                )
            yield values


class _JsonLoader(JsonValues, yaml.SafeLoader):
    """In Python: the one in C overflows the stack of a text that is nested deeply."""


def _whole(node: Any) -> Any:
    """JSON escapes some characters as two halves, which YAML leaves apart."""
    if isinstance(node, dict):
        return {_whole(key): _whole(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_whole(each) for each in node]
    return whole_characters(node) if isinstance(node, str) else node


def message_of(path: Path, values: dict[str, Any], kind: type[M]) -> M:
    """The message of one document. Raises InvalidDocument."""
    try:
        return json_format.ParseDict(_strict_form(values, kind.DESCRIPTOR), kind())
    except (UnknownField, UnknownWord) as error:
        raise InvalidDocument(path, str(error)) from error
    except json_format.ParseError as error:
        # The library speaks of message types; the reader knows only the file.
        problem = str(error).replace("(except extensions)", "")
        raise InvalidDocument(path, problem) from error


# The stubs know two kinds of Descriptor, hence Any.
def _strict_form(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The comforts undone. Raises UnknownField, UnknownWord."""
    strict: dict[str, Any] = {}
    # Copies: protobuf's own maps fail on keys that are no text, or none that can be written.
    fields = {**kind.fields_by_camelcase_name, **kind.fields_by_name}
    for key, value in values.items():
        name = SCHEMA_FIELDS.get(key, key)
        if name != key and name in kind.fields_by_name:
            strict[name] = json.dumps(value)
            continue
        field = fields.get(key)
        if field is None:
            raise UnknownField(str(key), kind.fields_by_name)
        strict[key] = _strict_value(value, field)
    return strict


def _strict_value(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_strict_value(each, field) for each in value]
    if field.enum_type is not None and isinstance(value, str):
        return _enum_name(value, field.name, field.enum_type)
    if field.message_type is None:
        return value
    if field.message_type.name == "Money" and isinstance(value, str):
        amount, _, currency = value.partition(" ")
        return {"amount": amount, "currency_code": currency or "USD"}
    if isinstance(value, dict) and not field.message_type.GetOptions().map_entry:
        return _strict_form(value, field.message_type)
    return value


def _enum_name(word: str, field: str, enum: EnumDescriptor) -> str:
    prefix = _prefix(enum)
    name = word.upper().replace("-", "_").replace(" ", "_")
    name = name if name.startswith(prefix) else prefix + name
    if name not in {**enum.values_by_name}:
        raise UnknownWord(field, word, enum)
    return name


def _prefix(enum: EnumDescriptor) -> str:
    return enum.values[0].name.removesuffix("UNSPECIFIED")

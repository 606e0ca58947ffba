"""Documents that people write: tools, prices and policies as YAML or JSON, read and written.

A file holds one document, several separated by `---`, or one with a list of them. How each
field may be written is in podium_kit.wire.written_messages. `-` is standard input.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from podium_kit.client.errors import UsageError
from podium_kit.json_yaml import JsonValues
from podium_kit.text import one_line, whole_characters
from podium_kit.wire import InvalidField, enum_words, json_values, merge_written
from podium_kit.wire.written_messages import WRITTEN_NAMES

M = TypeVar("M", bound=Message)
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = Path("-")


class InvalidDocument(UsageError):
    def __init__(self, path: Path, problem: str, fix: str = "") -> None:
        name = "standard input" if path == STDIN else path
        super().__init__(f"{name}: {problem}", fix or "fix the file; nothing was changed")


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
    """Every document or its problem, per file. Raises InvalidDocument for a path that is none."""
    for file in _files(path):
        documents = 0
        try:
            for values in _documents(file, read_text(file), list_key):
                documents += 1
                try:
                    yield file, message_of(file, values, kind)
                except InvalidDocument as problem:
                    yield file, problem
            if not documents:
                raise InvalidDocument(file, "is empty", "write a document into it")
        except InvalidDocument as problem:
            yield file, problem


def read_only_message(path: Path, kind: type[M]) -> M:
    read = read_messages(path, kind)
    if len(read) != 1:
        raise InvalidDocument(path, f"holds {len(read)} documents instead of one")
    return read[0][1]


def read_message(path: Path, text: str, kind: type[M]) -> M:
    documents = list(_documents(path, text, "specs"))
    if len(documents) != 1:
        raise InvalidDocument(path, f"holds {len(documents)} documents instead of one")
    return message_of(path, documents[0], kind)


def _files(path: Path) -> list[Path]:
    if path == STDIN:
        return [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise InvalidDocument(path, "the folder holds no .yaml or .json file", "check the path")
        return files
    if not path.is_file():
        raise InvalidDocument(path, "there is no such file or folder", "check the path")
    return [path]


def read_text(path: Path) -> str:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read().decode()
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDocument(path, "is not UTF-8", "save it as YAML or JSON in UTF-8") from error
    except OSError as error:
        raise InvalidDocument(path, f"cannot be read: {error.strerror}") from error


def _documents(path: Path, text: str, list_key: str) -> Iterator[dict[str, Any]]:
    try:
        loaded = yaml.load_all(text, _JsonLoader)
        # `---` at the end begins a document without content.
        documents = [_whole(document) for document in loaded if document is not None]
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
    """A loader in Python, because the one in C overflows the stack on deeply nested text."""


def _whole(node: Any) -> Any:
    """JSON escapes some characters as two halves, which YAML leaves apart."""
    if isinstance(node, dict):
        return {_whole(key): _whole(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_whole(each) for each in node]
    return whole_characters(node) if isinstance(node, str) else node


def message_of(path: Path, values: dict[str, Any], kind: type[M]) -> M:
    message = kind()
    try:
        merge_written(values, message)
    except InvalidField as error:
        raise InvalidDocument(path, error.problem, error.fix) from error
    return message


def written(message: Message) -> dict[str, Any]:
    """Its given fields in people's words: short enums, money as text, schemas as mappings."""
    return _mapping(json_values(message), message.DESCRIPTOR)


def as_yaml(message: Message) -> str:
    return yaml.safe_dump(written(message), sort_keys=False, allow_unicode=True)


# The stubs know two kinds of Descriptor, hence Any.
def _mapping(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    # Copies: protobuf's own maps are slow to ask, and fail on some keys.
    fields = {**kind.fields_by_name}
    found = {}
    for name, value in values.items():
        if value in ("", 0, False, None, [], {}) and not fields[name].has_presence:
            continue
        if value is None or value == {}:
            continue
        if name in WRITTEN_NAMES:
            found[WRITTEN_NAMES[name]] = json.loads(value)
        else:
            found[name] = _value(value, fields[name])
    return {name: value for name, value in found.items() if value != {}}


def _value(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_value(each, field) for each in value]
    if field.enum_type is not None:
        number = field.enum_type.values_by_name[value].index
        return enum_words(field.enum_type)[number - 1] if number else value
    kind = field.message_type
    if kind is None or not isinstance(value, dict):
        return value
    if kind.name == "Money":
        return f"{value['amount']} {value['currency_code']}"
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {name: _value(each, inner) for name, each in value.items()}
    return _mapping(value, kind)

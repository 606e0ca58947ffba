import importlib
import inspect
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings
from scripts.docs_site.markdown import table

from podium_training.grpo.config import RunConfig
from podium_training.imitation.config import SftConfig


def settings_page() -> Iterator[tuple[str, str]]:
    parts = ["# Settings\n\nEach process reads its settings once, from the environment.\n\n"]
    for path in sorted(Path("services").rglob("config.py")):
        module = importlib.import_module(".".join(path.with_suffix("").parts[1:]))
        for _, kind in inspect.getmembers(module, inspect.isclass):
            last = kind.__module__ == module.__name__ and not kind.__subclasses__()
            if issubclass(kind, BaseSettings) and last:
                prefix = kind.model_config.get("env_prefix", "")
                parts.append(f"## `{prefix}…`\n\n{inspect.getdoc(kind)}\n\n")
                parts.append(settings_table(kind, prefix, "__"))
    yield "reference/settings.md", "".join(parts)


def run_page() -> Iterator[tuple[str, str]]:
    text = (
        "# A training run's file\n\nKeys of the YAML file that the GRPO job reads. A dot goes one "
        "level deeper.\n\n"
    )
    grpo, sft = (settings_table(kind, "", ".") for kind in (RunConfig, SftConfig))
    head = "\n## Supervised fine-tuning\n\nThose that `podium_training.imitation.sft` reads.\n\n"
    yield "reference/training-run.md", text + grpo + head + sft


def settings_table(kind: type[BaseModel], prefix: str, separator: str) -> str:
    rows = list(settings_rows(kind, prefix, separator))
    if separator == "__":
        rows = [(f"`{name.upper()}`", *rest) for name, *rest in rows]
    else:
        rows = [(f"`{name}`", *rest) for name, *rest in rows]
    return table("Name, Type, Default, Meaning", rows)


def settings_rows(
    kind: type[BaseModel], prefix: str, separator: str, optional: bool = False
) -> Iterator[tuple[str, ...]]:
    """Name, type, default and meaning of every field, those of nested models after it."""
    for field_name, field in kind.model_fields.items():
        alias = field.validation_alias
        name = alias if isinstance(alias, str) else prefix + field_name
        nested = [each for each in parts_of(field.annotation) if is_model(each)]
        if nested and get_origin(field.annotation) in (None, Union, UnionType):
            unset = optional or field.default is None
            yield from settings_rows(nested[0], f"{name}{separator}", separator, unset)
        else:
            default = "required with its group" if optional else "**required**"
            yield (
                name,
                type_name(field.annotation),
                default_of(field, default),
                field.description or "",
            )


def parts_of(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) or (annotation,)


def is_model(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, BaseModel)


def type_name(annotation: Any) -> str:
    """A type as a reader says it: `int`, `token or sequence`, `JSON list of text`."""
    arguments = [each for each in get_args(annotation) if each not in (type(None), ...)]
    match get_origin(annotation):
        case None:
            return plain_name(annotation)
        case origin if origin is Literal:
            return " or ".join(f"`{each}`" for each in arguments)
        case origin if origin in (Union, UnionType):
            return " or ".join(type_name(each) for each in arguments)
        case origin if origin is Annotated:
            return type_name(arguments[0])
        case origin:
            kind = "object" if origin is dict else "list"
            return f"JSON {kind} of {' to '.join(type_name(each) for each in arguments)}"


def plain_name(kind: Any) -> str:
    if issubclass(kind, Enum):
        return " or ".join(f"`{each.value}`" for each in kind)
    names = {"Path": "path", "FilePath": "path", "str": "text", "SecretStr": "secret text"}
    return names.get(kind.__name__, str(kind.__name__))


def default_of(field: FieldInfo, missing: str) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required() or value is PydanticUndefined:
        return missing
    if value is None or value in ("", (), frozenset(), {}):
        return "unset"
    # The folder for temporary files differs from machine to machine.
    return f"`{value}`".replace(tempfile.gettempdir(), "$TMPDIR")

"""Capabilities of chat models, by provider and name, from model_families.yaml or a file like it.

A request carries only what its model accepts, because no form works everywhere: OpenAI rejects
`max_tokens`, Mistral rejects `max_completion_tokens`, and DeepSeek and Ollama silently ignore it.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from podium_kit.json_yaml import FastSafeLoader
from podium_kit.models.chat_parameters import ChatParameters
from podium_kit.rpc.errors import InvalidArgument

log = logging.getLogger(__name__)

SHIPPED = Path(__file__).with_suffix(".yaml")
SAMPLING = frozenset({"temperature", "top_p"})
NO_EFFORT = "none"
MODELS_KNOWN = 1024


class InvalidModelFamilies(InvalidArgument):
    """A file of model families that cannot be used; the message names the place."""


class ModelCapabilities(BaseModel):
    """Parameters that a chat model accepts; the file explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: str = ""
    output_cap: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    sampling: Literal["accepted", "rejected", "one_of_two", "without_reasoning"] = "accepted"
    stream_options: bool = True
    efforts: tuple[str, ...] = ()
    default_effort: str = ""
    parallel_calls: int = Field(1, ge=1, le=16)

    @model_validator(mode="after")
    def _has_its_default_effort(self) -> "ModelCapabilities":
        if self.default_effort and self.default_effort not in self.efforts:
            raise ValueError(f"default_effort {self.default_effort!r} is not one of the efforts")
        return self

    def parameters(self, effort: str = "") -> ChatParameters:
        """The form of a request with this effort; "" is the model's default."""
        reasons = (effort or self.default_effort) not in ("", NO_EFFORT)
        without: set[str] = set()
        if self.sampling == "rejected" or (self.sampling == "without_reasoning" and reasons):
            without |= SAMPLING
        elif self.sampling == "one_of_two":
            without.add("top_p")
        if not self.stream_options:
            without.add("stream_options")
        return ChatParameters(self.output_cap, frozenset(without), frozenset({self.output_cap}))


@dataclass(frozen=True)
class ModelFamily:
    """The models of one provider. `names` are models that are recognised behind other hosts."""

    name: str
    hosts: tuple[str, ...]
    names: tuple[str, ...]
    models: tuple[tuple[str, ModelCapabilities], ...]
    others: ModelCapabilities

    def capabilities(self, model: str) -> ModelCapabilities:
        return next((it for pattern, it in self.models if fnmatchcase(model, pattern)), self.others)


class ModelFamilies:
    """The families of one file."""

    def __init__(self, document: object) -> None:
        """Raises InvalidModelFamilies."""
        try:
            self._families = tuple(_families(_Document.model_validate(document)))
        except ValidationError as error:
            raise InvalidModelFamilies(_first_problem(error)) from error
        # Patterns of all families are tried for every call of a model.
        self._found = lru_cache(MODELS_KNOWN)(self._family)

    def capabilities(
        self, base_url: str, model: str, stated: Mapping[str, Any]
    ) -> ModelCapabilities:
        """The capabilities of the model's family, and over them the stated ones.

        What is stated may name the family. Raises InvalidArgument.
        """
        family = self._named(stated["family"]) if "family" in stated else None
        family = family or self._found(base_url, model)
        name = model.lower().rpartition("/")[2]
        known = family.capabilities(name) if family else ModelCapabilities()
        if not stated:
            return known
        # The family's default effort need not be one of other efforts.
        replaced = {"default_effort": ""} if "efforts" in stated else {}
        try:
            return ModelCapabilities.model_validate({**known.model_dump(), **replaced, **stated})
        except ValidationError as error:
            raise InvalidArgument(_first_problem(error)) from error

    def _named(self, name: str) -> ModelFamily:
        found = next((family for family in self._families if family.name == name), None)
        if found is None:
            names = ", ".join(family.name for family in self._families)
            raise InvalidArgument(f"there is no family {name!r}; name one of {names}")
        return found

    def _family(self, base_url: str, model: str) -> ModelFamily | None:
        host, name = (urlsplit(base_url).hostname or "").lower(), model.lower()
        for family in self._families:
            if any(fnmatchcase(host, pattern) for pattern in family.hosts):
                return family
        # A router names the provider before the model.
        name = name.rpartition("/")[2]
        return next(
            (
                family
                for family in self._families
                if any(fnmatchcase(name, pattern) for pattern in family.names)
            ),
            None,
        )


class ModelFamiliesFile:
    """The families of a file, which is read again once it has changed.

    While a changed file cannot be used, the families before it stay in use.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Reads the shipped file where no path is given. Raises InvalidModelFamilies."""
        self._path = path or SHIPPED
        self._modified = self._path.stat().st_mtime_ns
        self._families = self._read()

    def capabilities(
        self, base_url: str, model: str, stated: Mapping[str, Any] = MappingProxyType({})
    ) -> ModelCapabilities:
        """See ModelFamilies.capabilities."""
        try:
            modified = self._path.stat().st_mtime_ns
            if modified != self._modified:
                self._modified = modified
                self._families = self._read()
        except (OSError, InvalidModelFamilies) as error:
            log.error("the model families stay as they were: %s", error)
        return self._families.capabilities(base_url, model, stated)

    def _read(self) -> ModelFamilies:
        try:
            return ModelFamilies(yaml.load(self._path.read_text(), FastSafeLoader))  # noqa: S506
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InvalidModelFamilies(f"{self._path}: {error}") from error
        except InvalidModelFamilies as error:
            raise InvalidModelFamilies(f"{self._path}: {error.message}") from error


class _ModelEntry(BaseModel):
    model_config = ConfigDict(extra="allow")

    names: tuple[str, ...]


class _FamilyEntry(BaseModel):
    model_config = ConfigDict(extra="allow")

    hosts: tuple[str, ...]
    names: tuple[str, ...] = ()
    like: str = ""
    models: tuple[_ModelEntry, ...] = ()


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    families: dict[str, _FamilyEntry]
    # Read by podium_kit.models.lineages.
    lineages: dict[str, tuple[str, ...]] = {}


def _families(document: _Document) -> Iterator[ModelFamily]:
    for name, entry in document.families.items():
        entries, shared = [entry], dict(entry.model_extra or {})
        if entry.like:
            other = document.families.get(entry.like)
            if other is None:
                raise InvalidModelFamilies(f"families.{name}.like: there is no {entry.like!r}")
            entries.append(other)
            shared = {**(other.model_extra or {}), **shared}
        models = tuple(
            (
                pattern.lower(),
                _capabilities(
                    f"families.{name}.models",
                    {**shared, **(model.model_extra or {}), "family": name},
                ),
            )
            for each in entries
            for model in each.models
            for pattern in model.names
        )
        others = _capabilities(f"families.{name}", {**shared, "family": name})
        yield ModelFamily(name, entry.hosts, entry.names, models, others)


def _capabilities(place: str, stated: Mapping[str, Any]) -> ModelCapabilities:
    try:
        return ModelCapabilities.model_validate(stated)
    except ValidationError as error:
        raise InvalidModelFamilies(f"{place}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])

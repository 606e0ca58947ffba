import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from podium_training.synthesis.schema import (
    JSON_TYPES,
    ColumnType,
    Name,
    Proposal,
    Schema,
    Text,
    object_schema,
)

PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
READS = ("select", "with")
WRITES = ("insert", "update", "delete")
# Of the tool that a task's verifier looks at the state with; no task is offered it.
STATE_TOOL = "state"


class InvalidDomain(ValueError):
    pass


class Parameter(Proposal):
    name: Name
    type: ColumnType
    description: Text


class DomainTool(Proposal):
    """A function over the tables: one SQL statement with named parameters.

    A statement is checked and run without trusting who wrote it, which code is not.
    """

    name: Name
    description: Text
    parameters: Annotated[list[Parameter], Field(max_length=8)]
    statement: Annotated[str, Field(min_length=1, max_length=2000)]

    @model_validator(mode="after")
    def _parameters_are_used(self) -> "DomainTool":
        used, named = set(PARAMETER.findall(self.statement)), {one.name for one in self.parameters}
        if used != named:
            wrong = ", ".join(sorted(used ^ named))
            raise ValueError(f"tool {self.name}: statement and parameters differ in {wrong}")
        if self.verb not in READS + WRITES:
            raise ValueError(f"tool {self.name}: the statement starts with {self.verb!r}")
        if self.name == STATE_TOOL:
            raise ValueError(f"tool {self.name}: the verifier's own tool has that name")
        if "'now'" in self.statement.lower():
            raise ValueError(f"tool {self.name}: what 'now' is differs at every call")
        return self

    @property
    def verb(self) -> str:
        return self.statement.split(maxsplit=1)[0].lower()

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    def arguments_schema(self) -> dict[str, Any]:
        return object_schema(
            {
                one.name: {"type": JSON_TYPES[one.type], "description": one.description}
                for one in self.parameters
            }
        )


class Domain(Proposal):
    """Everything a task of the domain needs."""

    subject: Text
    tables: Schema
    entries: dict[str, list[dict[str, Any]]]
    """Rows by table."""
    tools: list[DomainTool]

    @property
    def name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "_", self.subject.lower()).strip("_")[:40] or "domain"

    def tool(self, name: str) -> DomainTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    @classmethod
    def read(cls, path: Path) -> "Domain":
        try:
            return cls.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            raise InvalidDomain(f"{path} holds no domain: {error}") from error

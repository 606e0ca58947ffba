from pathlib import Path
from random import Random
from typing import Annotated, Any

import yaml
from google.protobuf import json_format
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from podium.registry.v1 import tool_pb2
from podium_training.tasks.task import Task

Share = Annotated[float, Field(ge=0, le=1)]


class InvalidPool(ValueError):
    """A file that is no pool of experts; the message names file, field and fault."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Expert(_Strict):
    """A model of stated strength."""

    alias: str = Field(min_length=1, max_length=64)
    description: str = Field(min_length=1)
    sku: str = Field(min_length=1)
    latency_s: float = Field(gt=0, le=3600)
    """Seconds that a call counts as; it answers at once."""
    right: Share
    """Share of right answers."""
    families: dict[str, Share] = {}
    """Share of right answers in tasks of these families."""
    thinking_tokens: int = Field(300, ge=0)
    """Tokens of every completion, on top of its text."""

    def is_right(self, task: Task, seed: int) -> bool:
        """Draws whether the expert is right; the same task always gives the same result."""
        chance = Random(f"{seed}/{task.id}/{self.alias}")  # noqa: S311 chance, not a secret
        return chance.random() < self.families.get(task.family, self.right)


class Pool(_Strict):
    """Experts that are the models of one tool."""

    tool: str
    description: str
    experts: tuple[Expert, ...] = Field(min_length=1)

    def tool_spec(self, base_url: str) -> tool_pb2.ToolSpec:
        """The tool as `podium tools apply --shared` takes it, for a server at that URL."""
        schema = '{"type": "object", "properties": {}, "additionalProperties": false}'
        models = [_model(expert, base_url) for expert in self.experts]
        fields = {
            "name": self.tool,
            "kind": "TOOL_KIND_LLM",
            "description": self.description.strip(),
            "parametersJsonSchema": schema,
            "connection": {
                "llm": {"models": models, "role": "LLM_ROLE_GENERALIST", "maxOutputTokens": 512}
            },
            "limits": {"timeout": "120s", "maxConcurrency": 64},
            "sideEffect": "SIDE_EFFECT_PURE",
            "provider": "simulation",
        }
        return json_format.ParseDict(fields, tool_pb2.ToolSpec())


def read_pool(path: Path) -> Pool:
    try:
        return Pool.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise InvalidPool(f"{path} is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InvalidPool(f"{path}: {field}: {first['msg']}") from error


def _model(expert: Expert, base_url: str) -> dict[str, Any]:
    return {
        "alias": expert.alias,
        "model": expert.alias,
        "baseUrl": base_url,
        "api": "LLM_API_OPENAI_CHAT",
        "sku": expert.sku,
        "description": expert.description,
        "provider": "simulation",
        "modelledLatency": f"{expert.latency_s:g}s",
    }

"""Arms and conditions of a comparison: `studies/NAME.yaml` changes what no training showed.

A study without a field has that of training: its experts, its spread of prices, its tools' names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from pydantic import BaseModel, ConfigDict, Field

from podium.registry.v1 import policy_pb2
from podium_kit.bundled_files import bundled_folder
from podium_training.experts.pool import Pool, read_pool
from podium_training.imitation.preference_pairs import instructions
from podium_training.tasks.task import Split, Task
from tool_registry.models import Preferences

FOLDER = Path(__file__).with_name("studies")
# Of the vectors and instructions alone: what `make bench-orchestrators` runs.
USUAL = "unseen-preferences"


class NewName(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str


class Study(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    unseen: str
    """The part of the study that no training showed."""
    policies: tuple[dict[str, Any], ...] = ()
    """Their instructions are kinds of `instructions.yaml`: the first sentence that was held out."""
    pool: Pool = Field(default_factory=lambda: read_pool(bundled_folder() / "experts.yaml"))
    price_spread: float = 3.0
    temperature: float = 0.0
    """At which models are sampled; 0 takes what is likeliest, as `podium run` does."""
    untrained: bool = True
    """False leaves out the arms of the model that was trained, as its makers left it."""
    tools: Mapping[str, NewName] = {}
    """New names by the name that training knew."""

    def specs(self) -> dict[str, policy_pb2.PolicySpec]:
        specs = [_spec(document) for document in self.policies or read_study(USUAL).policies]
        return {spec.name: spec for spec in specs}


def _spec(document: Mapping[str, Any]) -> policy_pb2.PolicySpec:
    fields = {**document, "unknownPrice": "UNKNOWN_PRICE_RULE_ADMIT"}
    if kind := document.get("instruction"):
        fields["instruction"] = instructions()[kind][Split.HELD_OUT][0]
    return json_format.ParseDict(fields, policy_pb2.PolicySpec())


def read_study(name: str) -> Study:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return Study.model_validate(yaml.safe_load(text))


def renamed(tasks: Sequence[Task], study: Study) -> list[Task]:
    """The tasks, their solutions by the tools' names in the study."""
    names = {known: new.name for known, new in study.tools.items()}

    def rename(task: Task) -> Task:
        if task.solution is None:
            return task
        calls = (replace(call, tool=names.get(call.tool, call.tool)) for call in task.solution)
        return replace(task, solution=tuple(calls))

    return [rename(task) for task in tasks]


def study_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def weights_of(policy: policy_pb2.PolicySpec) -> Preferences:
    given = policy.preferences
    return Preferences(given.outcome, given.compute, given.latency, dict(given.tools))

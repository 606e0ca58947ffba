"""Families of models by descent, as their names state them, from model_families.yaml."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import yaml

from podium_kit.models.model_families import SHIPPED


@dataclass(frozen=True)
class SharedFamily:
    """A judge's model, and one of its family that it would judge."""

    own: str
    judged: str
    family: str

    def __str__(self) -> str:
        return f"{self.own} and would judge {self.judged}, of its own family {self.family}"


def families(model: str) -> set[str]:
    """The lineages that a model's name states: `qwen` and `deepseek` of
    DeepSeek-R1-Distill-Qwen-7B.

    A name that states no known one has its first word for a family.
    """
    words = re.findall("[a-z]+", model.lower())
    of_name = re.findall("[a-z]+", model.rpartition("/")[2].lower())
    known = _lineages()
    return {known[word] for word in words if word in known} or set(of_name[:1])


def shared_family(own: Iterable[str], judged: Iterable[str]) -> SharedFamily | None:
    """The first family, by the judged models' names, that both sides have; None without any."""
    ours = {family: model for model in own for family in families(model)}
    for model in sorted(judged):
        if shared := sorted(families(model) & ours.keys()):
            return SharedFamily(ours[shared[0]], model, shared[0])
    return None


@cache
def _lineages() -> dict[str, str]:
    document = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    return {word: name for name, words in document["lineages"].items() for word in words}

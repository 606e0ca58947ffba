"""The kinds of question of every family, and the phrasings of each (`phrasings/FAMILY.yaml`)."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podium_kit.json_yaml import FastSafeLoader
from podium_training.tasks.task import Split

FOLDER = Path(__file__).parent / "phrasings"


class InvalidPhrasings(ValueError):
    """A file of phrasings is at fault; the message names file, kind and phrasing."""


class Kind(BaseModel):
    """One question, asked in many ways; no phrasing is in both splits."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    slots: Mapping[str, str]
    """The meaning of each {slot} of a phrasing, for those who write phrasings."""
    asks: str = Field(min_length=1)
    """The question, and the form that the answer must have."""
    train: list[str] = Field(min_length=1)
    held_out: list[str] = Field(min_length=1)

    def phrasings(self, split: Split) -> list[str]:
        return self.train if split is Split.TRAIN else self.held_out


@cache
def kinds(family: str) -> dict[str, Kind]:
    return read_kinds(FOLDER / f"{family}.yaml")


def read_kinds(path: Path) -> dict[str, Kind]:
    found = {}
    written = yaml.load(path.read_text(encoding="utf-8"), FastSafeLoader)  # noqa: S506
    for name, fields in written.items():
        try:
            found[name] = Kind.model_validate(fields)
        except ValidationError as error:
            raise InvalidPhrasings(f"{path.name}, kind {name}: {error}") from error
    _check(path.name, found)
    return found


def _check(file: str, found: Mapping[str, Kind]) -> None:
    kind_of: dict[str, str] = {}
    for name, kind in found.items():
        for phrasing in (*kind.train, *kind.held_out):
            same = " ".join(phrasing.casefold().split())
            fault = _slot_fault(phrasing, kind.slots)
            if same in kind_of:
                fault = f"kind {kind_of[same]} has it already; drop one"
            if fault:
                raise InvalidPhrasings(f"{file}, kind {name}, phrasing {phrasing!r}: {fault}")
            kind_of[same] = name


def _slot_fault(phrasing: str, slots: Mapping[str, str]) -> str:
    try:
        named = {slot for _, slot, _, _ in Formatter().parse(phrasing) if slot is not None}
    except ValueError as error:
        return f"{error}; write {{{{ and }}}} for braces"
    if unknown := named - set(slots):
        return f"no slot is called {', '.join(sorted(unknown))}; the kind has {', '.join(slots)}"
    if missing := set(slots) - named:
        return f"it lacks {', '.join(f'{{{slot}}}' for slot in sorted(missing))}"
    return ""

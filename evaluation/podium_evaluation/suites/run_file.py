"""The file that describes a run: a suite, who plays it, and within which limits."""

from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from podium_kit.client.errors import UnreadableFile, UsageError
from podium_kit.verifiers.llm_judge import Judges
from podium_kit.wire.values import parse_length

RUN_FILE_BYTES_MAX = 1024 * 1024


class Source(StrEnum):
    FAMILIES = "families"
    TASKS = "tasks"
    QUESTIONS = "questions"
    BFCL = "bfcl"
    REASONING_GYM = "reasoning-gym"
    PAPER = "paper"
    TAU2 = "tau2"
    ENVIRONMENT = "environment"


FILES = (Source.TASKS, Source.QUESTIONS, Source.PAPER)
CONVERSATIONS = (Source.TAU2, Source.ENVIRONMENT)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SuiteOptions(Strict):
    """The items of a suite, made or read the same way every time."""

    source: Source = Field(Source.FAMILIES, alias="from")
    name: str = Field("", max_length=128, description="for people; made of the rest by default")
    file: Path | None = Field(None, description="of tasks, questions and paper")
    families: tuple[str, ...] = Field((), description="like arithmetic; all by default")
    count: PositiveInt = Field(24, le=5_000, description="items, at most")
    seed: int = 0
    judges: Judges = Field(
        (),
        alias="judge",
        description="tools of kind llm for answers in words: one, or a majority of several",
    )
    environment: str = Field("", description="that of an own benchmark, by its folder's name")
    domain: str = Field("", description="of conversations: mock, airline, retail or telecom")
    split: str = Field("", description="of conversations; the benchmark's own choice by default")
    items: tuple[str, ...] = Field((), description="ids of conversations; all by default")
    user: str = Field("", description="tool of kind llm that plays the user, like ask_llm/large")
    digest: str = Field("", description="SHA-256 that the file must have; any by default")

    @model_validator(mode="after")
    def _has_its_file(self) -> Self:
        if self.source in FILES and self.file is None:
            raise ValueError(f"`from: {self.source}` needs a `file`")
        if self.file is not None and self.source not in (*FILES, *CONVERSATIONS):
            raise ValueError(f"`file` is for {', '.join((*FILES, *CONVERSATIONS))}")
        if self.digest and self.file is None:
            raise ValueError("`digest` is that of a file")
        return self

    @model_validator(mode="after")
    def _has_its_user(self) -> Self:
        if self.source in CONVERSATIONS:
            if not self.user:
                raise ValueError(f"`from: {self.source}` needs a `user`, a tool of kind llm")
        elif self.user or self.domain or self.split or self.items:
            raise ValueError(
                f"`user`, `domain`, `split` and `items` are for {', '.join(CONVERSATIONS)}"
            )
        if (self.source is Source.ENVIRONMENT) != bool(self.environment):
            raise ValueError("`environment` is for `from: environment`, which needs it")
        return self


def _seconds(value: Any) -> Any:
    return float(parse_length(value)) if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)]
Usd = Annotated[Decimal, Field(gt=0, max_digits=28, decimal_places=12)]


class Arm(Strict):
    """A way to play trials: the model or rule that decides, its tools, and its sampling."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,63}$")
    policy: str = Field("", description="the tenant's active one by default")
    model: str = Field(
        "", description="orchestrator, or a rule like rule/cheapest; what users get by default"
    )
    tools: tuple[str, ...] = Field((), description="those that fit the task best by default")
    temperature: float = Field(0.0, ge=0)
    max_tokens: PositiveInt = Field(512, description="of one completion")
    prompt_mode: Literal["", "stateless", "chat", "template"] = ""
    turn_limit: int | None = Field(
        None, ge=1, le=300, description="that of the run by default; 1 answers without tools"
    )


class RunFile(Strict):
    suite: SuiteOptions
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=64)
    repeats: PositiveInt = Field(1, le=64, description="trials of each item and arm")
    budget_usd: Usd = Field(description="most that the whole run may cost")
    trial_usd: Usd | None = Field(None, description="a trial that would cost more is wrong")
    turn_limit: PositiveInt = Field(6, le=300)
    time_limit: Seconds = 120.0
    at_once: PositiveInt = Field(4, le=1024, description="trials in flight")
    allow_own_family: bool = Field(False, description="judges of models of their own family")
    starts_per_minute: PositiveInt | None = Field(None, description="no limit by default")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [arm.name for arm in self.arms]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two arms are called {twice[0]}")
        return self


def read_run_file(path: Path) -> RunFile:
    """The run that a YAML file describes; paths in it are relative to it. Raises UsageError."""
    try:
        if path.stat().st_size > RUN_FILE_BYTES_MAX:
            raise UsageError(f"{path} is larger than 1 MiB", "name a run's YAML file")
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "name a run's YAML file") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not YAML: {error}", "fix the file") from error
    try:
        run = RunFile.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise UsageError(f"{path}: {faults}", "see docs/evaluation.md") from error
    if run.suite.file is None:
        return run
    suite = run.suite.model_copy(update={"file": path.parent / run.suite.file})
    return run.model_copy(update={"suite": suite})

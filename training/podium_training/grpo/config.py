"""Settings of a training run, from one YAML file. Light: nothing of torch is imported here."""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from podium_kit.policy_versions.names import RUN
from podium_kit.stream import KafkaSettings
from podium_kit.telemetry import TelemetrySettings
from podium_training.grpo.ending import Fault

# As objective/advantages.py and objective/losses.py name them, which import torch.
AdvantageName = Literal["group_mean", "group_std", "batch_std", "rloo", "paper", "gdpo", "solved"]
LossName = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "imitation"]
LevelName = Literal["token", "sequence"]
KlEstimatorName = Literal["k1", "k2", "k3"]
DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["float32", "bfloat16"]
AveragesName = Literal["float32", "bytes"]
OutcomeName = Literal["checks", "feedback"]
MalformedName = Literal["trained", "masked"]
WeightName = Literal["compute", "latency", "tools"]
RecomputedName = Literal["gates", "layers"]
STREAM_EXAMPLE = '{bootstrap: "127.0.0.1:9092"}, the object `kafka` of connection.json'
RunName = Annotated[str, Field(pattern=f"^{RUN}$")]


class InvalidConfig(Fault):
    """A configuration that cannot be run; the message names every fault."""


class Section(BaseModel):
    """Unknown keys are faults: a misspelt one must not be a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Read = TypeVar("Read", bound=Section)


class StreamConfig(KafkaSettings):
    """The stream of trajectories; see `KafkaSettings` for TLS and passwords."""

    topic: str = Field("trajectories.v1", description="the topic")
    patience_s: float = Field(
        600.0, gt=0, allow_inf_nan=False, description="ends when nothing has come for so long"
    )


class SourceConfig(Section):
    """The episodes that a run reads, of all that the topic holds."""

    tenant: str = Field(description="of this tenant alone")
    policy: str = Field(description="under this policy alone")


class GroupConfig(Section):
    """The groups that are trained on."""

    outcome: OutcomeName = Field(
        "checks", description="who says that an episode is solved; feedback: its first score"
    )
    advantage: AdvantageName = Field("group_std", description="how episodes are compared")
    members_min_share: float = Field(0.5, gt=0, le=1, description="of a group's size")
    std_floor: float = Field(0.1, ge=0, description="rewards of a group must differ at least so")
    cost_spread_min: float = Field(
        0.0, ge=0, description="money; smaller differences of a group count in proportion"
    )
    latency_spread_min_s: float = Field(
        0.0, ge=0, description="seconds; as for cost: what a busy engine takes longer is noise"
    )
    unavailable_penalty: float = Field(
        0.0,
        ge=0,
        le=1,
        description="of the reward, times the share of calls that found their tool unavailable",
    )
    malformed: MalformedName = Field(
        "trained", description="replies that could not be read; masked: not trained, as the paper's"
    )
    malformed_penalty: float = Field(
        0.0, ge=0, le=1, description="of the reward, times the share of such replies"
    )
    ignored: frozenset[WeightName] = Field(
        frozenset(), description="weights that rewards leave out though prompts state them"
    )
    versions_behind_max: int | None = Field(
        None, ge=0, description="steps that a group's oldest call may be behind; unset: any"
    )


class StepConfig(Section):
    """The optimizer step."""

    groups: int = Field(16, ge=1, description="groups in a step")
    learning_rate: float = Field(1e-6, gt=0, description="of AdamW")
    decay_start: float = Field(1.0, ge=0, le=1, description="share of steps at the full rate")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    averages: AveragesName = Field(
        "float32", description="of AdamW; bytes: a quarter of the memory, rounded"
    )
    recomputed: RecomputedName = Field(
        "gates", description="for the way back; layers: least memory, a third slower"
    )
    passes: int = Field(1, ge=1, description="optimizer steps per batch")
    loss: LossName = Field("dapo", description="how token losses are formed and added up")
    level: LevelName = Field("token", description="what a ratio is of; sequence: GSPO's")
    clip_low: float = Field(0.2, gt=0, description="of the ratio, from the second pass on")
    clip_high: float = Field(0.28, gt=0, description="likewise")
    dual_clip: float | None = Field(None, gt=1, description="bound where an advantage is negative")
    length_max: int = Field(512, ge=1, description="tokens; the constant of dr_grpo")
    importance_cap: float = Field(2.0, ge=1, description="of the weight that corrects for drift")
    kl_coefficient: float = Field(0.0, ge=0, description="of the divergence from the start")
    kl_estimator: KlEstimatorName = Field("k3", description="how that is estimated")
    gradient_norm_max: float = Field(1.0, gt=0, description="larger gradients are scaled down")
    tokens_max: int = Field(4096, ge=1, description="tokens of a micro-batch before sharing")
    row_tokens_max: int = Field(8192, ge=2, description="a longer call is not trained on")
    drift_stop: float = Field(1.0, gt=0, description="nats a token between server and trainer")

    @model_validator(mode="after")
    def _clips_what_can_move(self) -> Self:
        """Rejects clipping of a single pass, in which every ratio is 1."""
        unused = self.model_fields_set & {"clip_low", "clip_high", "dual_clip"}
        if self.passes == 1 and unused:
            names = ", ".join(sorted(unused))
            raise ValueError(f"{names} has no effect with one pass; raise step.passes or leave out")
        return self


class LoraConfig(Section):
    """An adapter is trained instead of all weights (LoRA, arXiv 2106.09685)."""

    rank: int = Field(16, ge=1, description="of the two matrices beside every linear layer")
    alpha: int = Field(32, ge=1, description="their product counts alpha / rank")
    seed: int = Field(0, description="of the first matrix's values; the second starts at 0")
    start: Path | None = Field(None, description="folder of an adapter to continue from instead")


class PublishConfig(Section):
    """The store of the policy's versions."""

    store: Path = Field(description="folder that the engines see, too")
    run: RunName = Field(description="name of the run in policy-<run>-v<step>")
    every: int = Field(1, ge=1, description="checkpoints between two versions")
    precision: PrecisionName = Field("float32", description="of the weights in the files")


class WandbConfig(Section):
    """Weights & Biases; the key is in WANDB_API_KEY."""

    project: str = Field(description="name of the project")
    entity: str | None = Field(None, description="team or user; unset: the key's own")
    mode: Literal["online", "offline"] = Field(
        "online", description="offline: files in the output folder, for `wandb sync`"
    )


class MlflowConfig(Section):
    """A tracking server of MLflow; credentials are in its environment variables."""

    tracking_uri: str = Field(description="like http://mlflow:5000")
    experiment: str = Field("podium", description="name of the experiment; made where it lacks")


class TrackersConfig(Section):
    """Trackers that get the metrics besides the output folder."""

    wandb: WandbConfig | None = None
    mlflow: MlflowConfig | None = None


class RunConfig(Section):
    """One training run."""

    model: Path = Field(description="folder of the policy to start from")
    output: Path = Field(description="folder for checkpoints and metrics")
    steps: int = Field(ge=1, description="steps in all, those before a restart included")
    checkpoint_every: int = Field(1, ge=1, description="steps between two checkpoints")
    processes: int = Field(1, ge=1, description="that torchrun starts; each holds a share")
    threads: int = Field(1, ge=1, description="of torch; the same number gives the same bits")
    device: DeviceName = Field("auto", description="auto: a GPU where torch sees one")
    precision: PrecisionName = Field("float32", description="of the passes; weights are float32")
    stream: StreamConfig
    source: SourceConfig | None = Field(
        None, description="whose episodes are learnt from; unset: those of all who consent"
    )
    groups: GroupConfig = GroupConfig()
    step: StepConfig = StepConfig()
    lora: LoraConfig | None = None
    publish: PublishConfig | None = None
    trackers: TrackersConfig = TrackersConfig()
    telemetry: TelemetrySettings | None = Field(
        None, description="of the first process: a metrics page; its logs become JSON lines"
    )

    @model_validator(mode="after")
    def _imitates_what_was_solved(self) -> Self:
        """Rejects imitation of unsolved episodes, which would lower probabilities without bound."""
        if (self.step.loss == "imitation") != (self.groups.advantage == "solved"):
            raise ValueError("step.loss: imitation and groups.advantage: solved go together")
        of_rewards = {"ignored", "unavailable_penalty", "malformed", "malformed_penalty"}
        unused = of_rewards & self.groups.model_fields_set
        if unused and self.groups.advantage == "solved":
            names = ", ".join(f"groups.{name}" for name in sorted(unused))
            raise ValueError(f"{names} has no effect on imitation: it knows no rewards")
        return self

    @model_validator(mode="after")
    def _waits_for_versions_that_come(self) -> Self:
        """Between two versions all groups grow older; were all too old, no step would follow."""
        bound = self.groups.versions_behind_max
        if bound is None:
            return self
        if self.publish is None:
            raise ValueError("groups.versions_behind_max needs a section publish: its run is meant")
        between = self.checkpoint_every * self.publish.every
        if bound < between - 1:
            raise ValueError(
                f"groups.versions_behind_max is at least {between - 1}: a version comes every"
                f" {between} steps (checkpoint_every times publish.every)"
            )
        return self

    @model_validator(mode="after")
    def _stays_near_where_it_counts(self) -> Self:
        """Imitation has no such term; an unused reference would only cost memory."""
        if self.step.loss == "imitation" and self.step.kl_coefficient:
            raise ValueError("step.kl_coefficient does nothing for imitation; leave it out")
        return self


def read_config(path: Path) -> RunConfig:
    return read_section(path, RunConfig)


def read_section(path: Path, kind: type[Read]) -> Read:
    try:
        return kind.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InvalidConfig(f"{path} is not YAML: {error}") from error
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc']))}: {_in_words(e)}" for e in error.errors()]
        raise InvalidConfig(f"{path}: " + "; ".join(faults)) from error


def _in_words(error: ErrorDetails) -> str:
    """A fault of a field, without the validator's names of types."""
    match error["type"]:
        case "missing":
            return "it is needed"
        case "extra_forbidden":
            return "there is no such field"
        case "model_type" | "model_attributes_type":
            example = STREAM_EXAMPLE if error["loc"] == ("stream",) else "{field: value}"
            return f"{error['input']!r} is no object; write it like {example}"
    return error["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")

from pathlib import Path

from pydantic import Field

from podium_training.grpo.config import (
    DeviceName,
    LoraConfig,
    PrecisionName,
    RunName,
    Section,
    StreamConfig,
)


class FirstTurnsConfig(Section):
    """First turns of questions, beside whole episodes: whom to ask under which vector."""

    tasks: Path = Field(description="JSONL of tasks, played or not")
    experts: Path = Field(description="YAML like bundled/experts.yaml")
    tool: str = Field("ask_expert", description="tool whose models are experts")
    specialists: tuple[str, ...] = Field(
        (), description="models that alone are liked in half of the turns; none: all in all"
    )
    decided: bool = Field(
        True, description="by the vector's reward; false: by chance, whatever the vector"
    )
    count: int = Field(12_960, ge=1, description="turns")
    weight: float = Field(2.0, gt=0, description="of their tokens beside those of whole episodes")


class VersionConfig(Section):
    store: Path = Field(description="folder that the engines see, too")
    run: RunName = Field(description="name of the run in policy-<run>-v<number>")
    number: int = Field(ge=1, description="of the version")
    precision: PrecisionName = Field("bfloat16", description="of the weights in the files")


class SftConfig(Section):
    model: Path = Field(description="folder of the model")
    stream: StreamConfig
    lora: LoraConfig
    publish: VersionConfig
    first_turns: FirstTurnsConfig | None = None
    renamed: int = Field(
        0, ge=0, description="calls with another word for the name that their question has"
    )
    steps: int = Field(744, ge=1, description="optimizer steps")
    learning_rate: float = Field(5e-4, gt=0, description="of AdamW, after 40 steps that lead to it")
    decay_start: float = Field(0.3, ge=0, lt=1, description="share of steps before it falls to 0")
    tokens_max: int = Field(40_960, ge=2, description="tokens of a step, padding included")
    row_tokens_max: int = Field(8192, ge=2, description="a longer call is not trained on")
    gradient_norm_max: float = Field(1.0, gt=0, description="larger gradients are scaled down")
    device: DeviceName = Field("auto", description="auto: a GPU where torch sees one")
    precision: PrecisionName = Field("bfloat16", description="of products, and of frozen weights")
    seed: int = Field(0, description="of the order of rows")

from pathlib import Path
from typing import Any

from pydantic import Field, HttpUrl, SecretStr
from pydantic_settings import SettingsConfigDict

from orchestrator_inference.models import PromptMode
from orchestrator_inference.prompt.budgets import SectionBudgets
from orchestrator_inference.service import PARALLEL_CALLS_LIMIT, StringBounds
from podium_kit.rpc.settings import ServerSettings


class OrchestratorInferenceSettings(ServerSettings):
    """orchestrator-inference: prompts, model calls and actions."""

    model_config = SettingsConfigDict(
        env_prefix="ORCHESTRATOR_INFERENCE_", env_nested_delimiter="__", frozen=True
    )

    engine_base_url: HttpUrl = Field(
        description="OpenAI-compatible base URL, for example http://vllm:8000/v1"
    )
    engine_api_key: SecretStr | None = Field(None, description="bearer key of the engine, if any")
    engine_timeout_s: float = Field(300.0, gt=0, description="longest completion, in seconds")
    default_model: str = Field("", description="model when none is named; empty takes the first")
    model_aliases: dict[str, str] = Field(
        default_factory=dict, description="JSON object of alias to model name"
    )
    model_families_file: Path | None = Field(
        None, description="YAML of what chat models accept, in place of the shipped one"
    )
    model_sku: str = Field("", description="price-book SKU of the default model and its adapters")
    max_in_flight: int = Field(256, gt=0, description="model calls at once; more wait in order")
    parallel_calls_max: int = Field(
        PARALLEL_CALLS_LIMIT,
        ge=1,
        le=PARALLEL_CALLS_LIMIT,
        description="most tool calls in one turn, whatever policy, request and model allow",
    )
    string_bounds: StringBounds = Field(
        StringBounds.ALWAYS,
        description="always: strings fit max_tokens, but hold no newline or double quote under "
        "xgrammar; after_cut: only once a reply was cut, for capable models",
    )
    engine_any_whitespace: bool = Field(
        False, description="whether the engine's grammar allows white space between JSON tokens"
    )
    prompt_mode: PromptMode = Field(
        PromptMode.STATELESS,
        description="prompt mode of the default model and its adapters where an episode names none;"
        " template for models that were trained to call tools by their chat template",
    )
    template_arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="JSON object for the chat template in prompt mode template, such as"
        ' {"enable_thinking": false}; vLLM only',
    )
    prompt: SectionBudgets = Field(
        default_factory=SectionBudgets, description="token budgets of the prompt's sections"
    )
    policy_store: Path | None = Field(
        None, description="folder of the trained policy versions; unset: none are served"
    )
    policy_store_in_engines: str = Field(
        "", description="that folder as the engines see it; empty: the same path"
    )
    engine_replicas_url: HttpUrl | None = Field(
        None,
        description="base URL whose host has an address per replica of the engine, such as a "
        "headless Service's; unset: the engine's own",
    )
    merged_engine_urls: tuple[HttpUrl, ...] = Field(
        (),
        description="JSON list of engines that each serve one merged version under its name; "
        "one for each address of a URL's host, looked up again and again",
    )
    publish_quorum: float = Field(
        1.0, gt=0, le=1, description="share of the engine's replicas that must serve a version"
    )
    canary_tolerance_nats: float = Field(
        0.08, gt=0, description="nats a token between engine and trainer; 0.001 for float32"
    )
    publish_check_s: float = Field(1.0, gt=0, description="seconds between looks at the store")
    versions_kept: int = Field(6, ge=1, description="newest versions that stay loaded")
    retire_after_s: float = Field(
        600.0, ge=0, description="seconds an unwanted version stays loaded; the longest call"
    )

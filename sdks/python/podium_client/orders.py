"""Specs of episodes out of Python's values."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from podium_client.functions import Functions
from podium_client.models import (
    Check,
    ClientTool,
    ConversationMessage,
    EpisodeSpec,
    Group,
    Money,
    Sampling,
)

PromptMode = Literal["stateless", "chat", "template"]
Amount = Money | Decimal | int | str


class EpisodeOptions(TypedDict, total=False):
    """Everything beside the task; what is left out is the tenant's or the platform's default."""

    # A policy's name.
    policy: str
    # Keeps only these registered tools.
    tools: Sequence[str]
    # An orchestrator's name.
    model: str
    # Most money; numbers and texts are US dollars.
    budget: Amount
    turn_limit: int
    # Most tool calls in one turn.
    parallel_calls: int
    # Longest run; numbers are seconds.
    time_limit: timedelta | float
    # What the answer must look like: a pydantic model, or a JSON Schema.
    answer: type[BaseModel] | Mapping[str, Any]
    # How earlier turns are shown to the model.
    prompt_mode: PromptMode
    sampling: Sampling
    # Earlier messages of the conversation, oldest first.
    history: Sequence[ConversationMessage]
    # At most 16, kept with the episode.
    labels: Mapping[str, str]
    # Scores the answer.
    check: Check
    group: Group
    # Tools of which one is called before anything else is decided.
    first_tools: Sequence[str]
    # Lets watchers see the answer while it is written.
    stream_answer: bool


def episode_spec(
    task: str, functions: Sequence[Callable[..., Any] | ClientTool], options: EpisodeOptions
) -> EpisodeSpec:
    """Returns the spec of an episode for the API."""
    tools = [each for each in functions if isinstance(each, ClientTool)]
    own = tuple(each for each in functions if not isinstance(each, ClientTool))
    spec = EpisodeSpec(
        task=task,
        policy=options.get("policy", ""),
        tool_names=list(options.get("tools", ())),
        model=options.get("model", ""),
        turn_limit=options.get("turn_limit", 0),
        parallel_calls=options.get("parallel_calls", 0),
        history=list(options.get("history", ())),
        labels=dict(options.get("labels", {})),
        client_tools=[*tools, *Functions(own).offered()],
        first_tool_names=list(options.get("first_tools", ())),
        sampling=options.get("sampling"),
        check=options.get("check"),
        group=options.get("group"),
        stream_answer=options.get("stream_answer", False),
    )
    if "budget" in options:
        spec.budget = money(options["budget"])
    if "time_limit" in options:
        given = options["time_limit"]
        spec.time_limit = given if isinstance(given, timedelta) else timedelta(seconds=given)
    if "prompt_mode" in options:
        spec.prompt_mode = f"PROMPT_MODE_{options['prompt_mode'].upper()}"
    if "answer" in options:
        spec.answer_json_schema = json.dumps(_schema(options["answer"]))
    return spec


def money(given: Amount, currency: str = "USD") -> Money:
    """An amount of money; texts keep every digit."""
    if isinstance(given, Money):
        return given
    if isinstance(given, float):
        raise TypeError(f"{given} is a float, which is not exact; write the amount as a text")
    return Money(currency_code=currency, amount=Decimal(given))


def _schema(given: type[BaseModel] | Mapping[str, Any]) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else given.model_json_schema()

import os
from pathlib import Path

import pytest

from podium_kit.models.model_families import (
    InvalidModelFamilies,
    ModelFamilies,
    ModelFamiliesFile,
)

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
NEW_CAP, SAMPLING = "max_completion_tokens", {"temperature", "top_p"}


@pytest.mark.parametrize(
    ("base_url", "model", "effort", "cap", "without"),
    [
        (OPENAI, "gpt-4.1-mini", "", NEW_CAP, set()),
        (OPENAI, "gpt-5", "", NEW_CAP, SAMPLING),
        (OPENAI, "GPT-5-mini-2025-08-07", "", NEW_CAP, SAMPLING),
        (OPENAI, "gpt-5-chat-latest", "", NEW_CAP, set()),
        (OPENAI, "gpt-5.2", "", NEW_CAP, set()),
        (OPENAI, "gpt-5.2", "high", NEW_CAP, SAMPLING),
        (OPENAI, "gpt-5.6-sol", "", NEW_CAP, SAMPLING),
        (OPENAI, "gpt-5.6-sol", "none", NEW_CAP, set()),
        (OPENAI, "gpt-6-astra", "", NEW_CAP, SAMPLING),
        (OPENAI, "o3", "", NEW_CAP, SAMPLING),
        ("https://me.openai.azure.com/openai/v1", "gpt-5", "", NEW_CAP, SAMPLING),
        (
            "https://me.services.ai.azure.com/openai/v1",
            "mistral-large",
            "",
            "max_tokens",
            {"stream_options"},
        ),
        ("https://api.mistral.ai/v1", "magistral", "", "max_tokens", {"stream_options"}),
        ("https://api.deepseek.com", "deepseek-chat", "", "max_tokens", set()),
        ("https://openrouter.ai/api/v1", "openai/gpt-5", "", NEW_CAP, set()),
        (ANTHROPIC, "claude-opus-4-8", "", "max_tokens", SAMPLING),
        (ANTHROPIC, "claude-sonnet-4-5-20250929", "", "max_tokens", {"top_p"}),
        (
            "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1",
            "us.anthropic.claude-opus-5-v1:0",
            "",
            "max_tokens",
            SAMPLING,
        ),
        # Behind an unknown host a model is known by its name; open models are not OpenAI's.
        ("http://litellm:4000/v1", "openai/gpt-5-mini", "", NEW_CAP, SAMPLING),
        ("http://vllm:8000/v1", "openai/gpt-oss-120b", "", "max_tokens", set()),
        ("http://vllm:8000/v1", "Qwen/Qwen3-8B", "", "max_tokens", set()),
    ],
)
def test_a_request_has_what_its_model_accepts(
    base_url: str, model: str, effort: str, cap: str, without: set[str]
) -> None:
    parameters = ModelFamiliesFile().capabilities(base_url, model).parameters(effort)
    assert (parameters.cap, parameters.without) == (cap, frozenset(without))


@pytest.mark.parametrize(
    ("base_url", "model", "calls"),
    [
        (OPENAI, "gpt-5-mini", 4),
        (OPENAI, "o3", 1),
        (ANTHROPIC, "claude-opus-4-8", 4),
        ("http://vllm:8000/v1", "nvidia/Nemotron-Orchestrator-8B", 4),
        ("http://vllm:8000/v1", "Qwen/Qwen3-8B", 4),
        ("http://vllm:8000/v1", "smollm2-135m-podium", 1),
        # Trained here, by episodes of one call a turn.
        ("http://vllm:8000/v1", "policy-qwen3-v12", 1),
        ("https://openrouter.ai/api/v1", "some/model", 1),
    ],
)
def test_only_models_that_were_trained_for_it_make_several_calls_in_a_turn(
    base_url: str, model: str, calls: int
) -> None:
    assert ModelFamiliesFile().capabilities(base_url, model).parallel_calls == calls


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "valid dictionary"),
        ({"families": {"x": {}}}, "families.x.hosts"),
        ({"families": {"x": {"hosts": ["h"], "models": [{"names": 1}]}}}, "models.0.names"),
        ({"families": {"x": {"hosts": ["h"], "sampling": "maybe"}}}, "families.x: sampling"),
        ({"families": {"x": {"hosts": ["h"], "cap": "y"}}}, "families.x: cap: Extra inputs"),
        ({"families": {"x": {"hosts": ["h"], "like": "y"}}}, "families.x.like: there is no 'y'"),
        (
            {"families": {"x": {"hosts": ["h"], "efforts": ["low"], "default_effort": "high"}}},
            "default_effort 'high' is not one of the efforts",
        ),
    ],
)
def test_a_file_that_cannot_be_used_names_the_place(document: object, words: str) -> None:
    with pytest.raises(InvalidModelFamilies, match=words):
        ModelFamilies(document)


def test_a_changed_file_is_read_again_and_an_invalid_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "families.yaml"
    path.write_text("families: {x: {hosts: [h], output_cap: max_completion_tokens}}")
    file = ModelFamiliesFile(path)
    assert file.capabilities("http://h/v1", "m").output_cap == NEW_CAP
    for text in ("families: {x: {hosts: [h]}}", "families: [", "families: {x: {}}"):
        changed = path.stat().st_mtime_ns + 1
        path.write_text(text)
        os.utime(path, ns=(changed, changed))
        assert file.capabilities("http://h/v1", "m").output_cap == "max_tokens"
    path.write_bytes(b"\xff\xfe\xff")
    assert file.capabilities("http://h/v1", "m").output_cap == "max_tokens"
    path.unlink()
    assert file.capabilities("http://h/v1", "m").output_cap == "max_tokens"


def test_an_unusable_file_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "families.yaml"
    path.write_text("families: {x: {}}")
    with pytest.raises(InvalidModelFamilies, match=r"families\.yaml: families\.x\.hosts"):
        ModelFamiliesFile(path)

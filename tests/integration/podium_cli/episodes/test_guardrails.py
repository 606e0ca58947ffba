"""Guardrails of a policy on direct calls and episodes, as clients of each protocol see them."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_direct_calls import client, experts, prices
from integration.podium_cli.episodes.test_fallback_models import as_admin
from openai_server import OpenAiServer, Reply

__all__ = ["client", "experts", "prices"]
MAILS = "Ada is at ada@example.com, and Bob is at bob@example.com. " * 20
SHOWN = MAILS.replace("ada@example.com", "[redacted]").replace("bob@example.com", "[redacted]")
POLICY = """
name: {name}
preset: balanced
unknown_price: admit
guardrails:
  - {{name: no-mail, action: {action}, personal_data: {{kinds: [email]}}}}
"""


@pytest.fixture
def policies(podium: CommandLine, tmp_path: Path) -> None:
    for action in ("block", "redact"):
        path = tmp_path / f"{action}.yaml"
        path.write_text(POLICY.format(name=f"mail-{action}", action=action))
        applied = podium("policies", "apply", "-f", str(path))
        assert applied.returncode == 0, applied.stderr


def asked(text: str, policy: str, **fields: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    extra = {"podium": {"policy": policy}}
    return {"model": "tool/expert/small", "messages": messages, "extra_body": extra, **fields}


@pytest.mark.usefixtures("policies")
def test_a_blocked_request_has_the_form_of_a_content_filter(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    with pytest.raises(openai.BadRequestError) as chat:
        client.chat.completions.create(**asked("mail ada@example.com", "mail-block"))
    with pytest.raises(openai.BadRequestError) as responses:
        client.responses.create(
            model="tool/expert/small",
            input="mail ada@example.com",
            extra_body={"podium": {"policy": "mail-block"}},
        )
    for error in (chat.value, responses.value):
        assert error.code == "content_filter"
        assert "the guardrail no-mail blocked the call: 1 email" in error.message
    claude = anthropic.Anthropic(
        base_url=str(client.base_url).removesuffix("/v1/"), api_key=client.api_key, max_retries=0
    )
    with pytest.raises(anthropic.BadRequestError, match="no-mail blocked the call"):
        claude.messages.create(
            model="tool/expert/small",
            max_tokens=10,
            messages=[{"role": "user", "content": "mail ada@example.com"}],
            extra_body={"podium": {"policy": "mail-block"}},
        )
    assert not experts.requests


@pytest.mark.usefixtures("policies")
def test_a_stream_never_shows_what_the_record_redacts(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    experts.take_back()
    experts.push(Reply(MAILS))
    raw = client.chat.completions.with_raw_response.create(
        **asked("who is at ada@example.com?", "mail-redact", stream=True)
    )
    chunks = list(raw.parse())
    texts = [each.choices[0].delta.content or "" for each in chunks if each.choices]
    assert "".join(texts) == SHOWN
    assert experts.requests[0]["messages"][-1]["content"] == "who is at [redacted]?"
    with api(podium) as http:
        call = http.get(f"/v1/direct-calls/{raw.headers['x-podium-episode']}").json()["call"]
    assert call["content"] == SHOWN
    decisions = [(each["stage"], each["verdict"], each["reason"]) for each in call["guardrails"]]
    assert decisions == [
        ("GUARDRAIL_STAGE_INPUT", "GUARDRAIL_VERDICT_REDACTED", "1 email"),
        ("GUARDRAIL_STAGE_OUTPUT", "GUARDRAIL_VERDICT_REDACTED", "40 email"),
    ]


def test_an_unknown_guardrail_is_rejected_with_the_fix(podium: CommandLine) -> None:
    unknown = {"name": "g", "action": "block", "toxicity": {}}
    with as_admin(podium) as http:
        replies = [
            http.post("/v1/policies", json={"spec": {"name": "guarded", "guardrails": [each]}})
            for each in (unknown, {"name": "g", "action": "block"})
        ]
    assert [each.status_code for each in replies] == [400, 400]
    assert "toxicity" in replies[0].text
    assert "set one of secrets, personal_data" in replies[1].text


@pytest.mark.usefixtures("policies")
def test_an_answer_of_an_episode_that_is_blocked_is_an_error_to_its_caller(
    podium: CommandLine, client: openai.OpenAI, model: OpenAiServer
) -> None:
    model.push(Reply(json.dumps({"answer": "ask ada@example.com"})))
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(
            **{**asked("whom do I ask?", "mail-block"), "model": model.models[0]}
        )
    assert error.value.code == "content_filter"
    assert "the guardrail no-mail blocked the answer" in error.value.message

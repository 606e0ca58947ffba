"""The cache of a policy, as clients, reports and the ledger show it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_direct_calls import (
    client,
    experts,
    ledger_entries,
    prices,
)
from integration.podium_cli.episodes.test_fallback_models import PRICES, as_admin
from openai_server import OpenAiServer

__all__ = ["client", "experts", "prices"]
COST = 110 * PRICES["small"]


@pytest.mark.parametrize("percent", [0, 25])
def test_a_hit_is_shown_and_costs_its_share_to_the_last_digit(
    podium: CommandLine,
    client: openai.OpenAI,
    experts: OpenAiServer,
    tmp_path: Path,
    percent: int,
) -> None:
    path = tmp_path / "cached.yaml"
    rule = {"ttl": "1h", "quota_bytes": 1_000_000, "charged_percent": percent}
    name = f"cached-{percent}"
    path.write_text(json.dumps({"name": name, "preset": "balanced", "cache": rule}))
    applied = podium("policies", "apply", "-f", str(path))
    assert applied.returncode == 0, applied.stderr
    wanted: Any = {
        "model": "tool/expert/small",
        "messages": [{"role": "user", "content": f"How many moons has Mars? {percent}"}],
        "temperature": 0,
        "extra_body": {"podium": {"policy": name}},
    }
    first = client.chat.completions.create(**wanted)
    again = client.chat.completions.create(**wanted)
    chunks = list(client.chat.completions.create(**wanted, stream=True))
    assert len(experts.requests) == 1
    assert again.choices == first.choices
    streamed = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    assert streamed == first.choices[0].message.content
    extras = [(each.model_extra or {})["podium"] for each in (first, again)]
    assert [extra.get("cached", False) for extra in extras] == [False, True]
    assert Decimal(extras[0]["cost"]["amount"]) == COST
    assert Decimal(extras[1]["cost"]["amount"]) == COST * percent / 100
    call_id = again.id.removeprefix("chatcmpl-")
    reserve, capture = ledger_entries(podium, f"{call_id}/0/tool/0")
    assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
    assert Decimal(capture["amount"]["amount"]) == COST * percent / 100
    with api(podium) as http:
        assert http.get(f"/v1/direct-calls/{call_id}").json()["call"]["cached"]


def test_a_cache_without_a_quota_is_rejected(podium: CommandLine) -> None:
    with as_admin(podium) as http:
        spec = {"name": "boundless", "cache": {"ttl": "3600s"}}
        reply = http.post("/v1/policies", json={"spec": spec})
    assert reply.status_code == 400
    assert "cache.quota_bytes is unset" in reply.text

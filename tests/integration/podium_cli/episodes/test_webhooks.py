"""Webhooks through the command line: registered, listed, followed, replayed, deleted."""

import time
from typing import Any

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer

ANSWER = {"answer": "two"}


def tried(podium: CommandLine) -> dict[str, Any]:
    """The only delivery, once it was tried."""
    while True:
        [delivery] = podium.json("webhooks", "deliveries", "--webhook", "gone")["deliveries"]
        if delivery["attempt_count"]:
            found: dict[str, Any] = delivery
            return found
        time.sleep(0.2)


def test_a_webhook_is_made_followed_replayed_and_deleted(
    podium: CommandLine, model: OpenAiServer
) -> None:
    # No one listens there.
    url = "http://127.0.0.1:9/hook"
    made = podium(
        *("webhooks", "create", "gone", url, "--secret", "hooks"),
        *("--event", "episode.ended", "--event", "version.promoted"),
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout == "gone receives episode.ended, version.promoted\n"
    listed = podium("webhook", "list")
    assert "gone\t" + url + "\tepisode.ended, version.promoted\thooks" in listed.stdout

    model.push(ANSWER)
    assert podium("run", "How many moons has Mars?", "--tool", "calculator").returncode == 0
    delivery = tried(podium)
    assert delivery["event_type"] == "WEBHOOK_EVENT_TYPE_EPISODE_ENDED"
    assert delivery["last_error"]
    shown = podium("webhooks", "deliveries", "--state", "pending").stdout
    assert "\tgone\tepisode.ended\tpending\t" in shown
    again = podium("webhooks", "replay", delivery["id"])
    assert again.stdout == "1 delivery sent again\n", again.stderr

    assert podium("webhooks", "delete", "gone").stdout == "gone is deleted\n"
    assert podium.json("webhooks", "list")["webhooks"] == []


def test_mistakes_are_named(podium: CommandLine) -> None:
    wrong = podium("webhooks", "create", "x", "https://e.org", "--secret", "s", "--event", "ended")
    assert wrong.returncode == 2
    assert '--event: there is no "ended"' in wrong.stderr
    assert "episode.ended, approval.requested" in wrong.stderr
    neither = podium("webhooks", "replay")
    assert (neither.returncode, "--failed" in neither.stderr) == (2, True)
    unknown = podium("webhooks", "delete", "nobody")
    assert unknown.returncode == 1
    assert "there is no webhook nobody" in unknown.stderr


def test_policies_and_prices_that_nothing_used_are_deleted(
    podium: CommandLine, tmp_path: Any
) -> None:
    policy = tmp_path / "unused.yaml"
    policy.write_text("{name: unused, preset: cost-first}")
    assert podium("policies", "apply", "-f", str(policy)).returncode == 0
    assert podium("policies", "delete", "unused").stdout == "unused v1 deleted\n"
    assert podium("policies", "show", "unused").returncode == 1
    preset = podium("policies", "delete", "balanced")
    assert preset.returncode == 1
    assert "is a preset" in preset.stderr

    prices = tmp_path / "list.yaml"
    prices.write_text(
        "- {sku: own/unused, currency_code: USD, source: spring list,"
        " components: [{dimension: call, unit_price: '1'}]}"
    )
    assert podium("prices", "import", str(prices)).returncode == 0
    gone = podium("prices", "delete", "--source", "spring list")
    assert "1 price deleted" in gone.stdout, gone.stderr
    nothing = podium("prices", "delete", "own/unused")
    assert "there is no price of own/unused" in nothing.stderr
    entries = podium.json("audit", "log")["entries"]
    assert {"DeletePolicy", "DeletePrices"} <= {entry["action"] for entry in entries}

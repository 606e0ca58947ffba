import json
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from episodes.keys import workflow_id
from episodes.workflows.connection import connect_temporal
from episodes.workflows.settings import TemporalSettings
from integration.podium_cli.attacks_on_loopback import TOPIC, context, temporal_over_tls
from integration.podium_cli.conftest import COMMAND_TIMEOUT_S, CommandLine, Platform
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal

ATTACKS = Path(__file__).with_name("attacks_on_loopback.py")


@pytest.fixture
def ports(podium: CommandLine) -> dict[str, Any]:
    known = json.loads((podium.state_dir / "processes.json").read_text())
    return {name: each["port"] for name, each in known.items() if each["port"]}


def attacked(attack: str, port: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """The attack by another user (where root runs the tests), who knows the port alone."""
    return subprocess.run(
        [sys.executable, ATTACKS, attack, str(port), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("shown", ["nothing", "tls", "certificate"])
@pytest.mark.parametrize("attack", ["temporal", "kafka"])
def test_nobody_commands_temporal_or_reads_the_stream_without_our_certificate(
    ports: dict[str, int], attack: str, shown: str
) -> None:
    ended = attacked(attack, ports[attack], shown)
    assert "broke in" not in ended.stdout
    assert "kept out" in ended.stdout, ended.stderr


@pytest.mark.parametrize("attack", ["temporal", "kafka"])
async def test_the_attack_works_where_nothing_stands_before_the_server(
    temporal: EmbeddedTemporal, kafka: EmbeddedKafka, attack: str
) -> None:
    await kafka.create_topics({TOPIC: 1})
    servers = {"temporal": temporal.port, "kafka": kafka.port}
    assert "broke in" in attacked(attack, servers[attack], "nothing").stdout


def test_our_own_processes_get_through(
    podium: CommandLine, platform: Platform, ports: dict[str, int]
) -> None:
    files = json.loads((podium.state_dir / "connection.json").read_text())["temporal"]
    own = Path(files["certificate"]), Path(files["private_key"])
    assert temporal_over_tls(ports["temporal"], context("certificate", own))
    platform.model.push({"answer": "Ouagadougou"})
    podium("run", "What is the capital of Burkina Faso?")
    # The record follows the answer after a moment.
    while not podium("trajectories", "tail", "-n", "1", "--json").stdout:
        time.sleep(0.05)


@pytest.fixture
def payload_key_id(podium: CommandLine) -> str:
    file = podium.state_dir / "keys" / "payload-keys"
    assert not file.stat().st_mode & (stat.S_IRWXO | stat.S_IRWXG)
    return file.read_text().split()[0]


@pytest.fixture
def waiting_episode(podium: CommandLine, platform: Platform, tmp_path: Path) -> Iterator[str]:
    policy = tmp_path / "waits.yaml"
    policy.write_text("name: waits\nunknown_price: admit\napproval: {names: [calculator]}\n")
    podium.json("policies", "apply", "-f", str(policy))
    platform.model.push({"thought": "", "tool": "calculator", "arguments": {"expression": "1 + 1"}})
    run = podium.start("run", "What is 1 + 1?", "--policy", "waits")
    while not (found := podium.json("approvals", "list")["approvals"]):
        pass
    [asked] = found
    yield asked["episode_id"]
    assert podium("episodes", "cancel", asked["episode_id"]).returncode == 0
    run.communicate(timeout=COMMAND_TIMEOUT_S)


async def test_temporal_stores_nothing_that_it_can_read(
    podium: CommandLine, waiting_episode: str, payload_key_id: str
) -> None:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    del connection["temporal"]["payload_keys_file"]
    client = await connect_temporal(
        connection["temporal_target"], "default", TemporalSettings(**connection["temporal"])
    )
    history = await client.get_workflow_handle(workflow_id(waiting_episode)).fetch_history()
    payload = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    assert dict(payload.metadata) == {
        "encoding": b"binary/encrypted",
        "encryption-key-id": payload_key_id.encode(),
    }


def test_temporal_and_the_broker_listen_nowhere_else(
    podium: CommandLine, platform: Platform, ports: dict[str, int]
) -> None:
    family = {each.pid for each in psutil.Process(platform.process.pid).children(recursive=True)}
    open_ports = {
        each.laddr.port
        for each in psutil.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr and each.pid in family
    }
    # A server in a network of its own has no listener here.
    assert {ports["temporal"], ports["kafka"]} <= open_ports <= set(ports.values())


def test_nothing_of_the_platform_is_a_file_of_everybody(podium: CommandLine) -> None:
    for folder in (podium.state_dir, podium.state_dir / "keys", podium.state_dir / "logs"):
        assert not folder.stat().st_mode & stat.S_IRWXO, folder
    certificates = json.loads((podium.state_dir / "connection.json").read_text())["kafka"]
    assert not Path(certificates["private_key"]).stat().st_mode & (stat.S_IRWXO | stat.S_IRWXG)

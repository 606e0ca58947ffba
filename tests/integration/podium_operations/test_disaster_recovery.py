"""docs/runbooks/disaster-recovery.md, performed: back up, destroy, restore, continue."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from kafka import KafkaConsumer, TopicPartition

from builders.episode_costs import misreported
from e2e.episodes_over_http import new_id
from integration.podium_cli.conftest import CommandLine, engine_options
from openai_server import OpenAiServer, Reply
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.stream import KafkaSettings
from temporary_files import server_folder

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbooks" / "disaster-recovery.md"
COMMAND = re.compile(r"^ *```sh\n *podium (.+)\n *```$", re.MULTILINE)
PRICES = """sku,dimension,unit_price,per
orchestrator/scripted-model,input_fresh,0.2,1000000
orchestrator/scripted-model,output_text,0.9,1000000
"""
SUM = {"tool": "calculator", "arguments": {"expression": "6*7"}}
SLOW_TASK, TASK = "take your time", "What is 6*7?"
TOPIC, CONNECTION = "trajectories.v1", "connection.json"
ENTRIES = "SELECT tenant, sequence, spend, held, hash FROM entry ORDER BY tenant, sequence"
OPEN_HOLDS = "SELECT key FROM hold WHERE state = 'open'"
HELD_TWICE = "SELECT key FROM entry WHERE kind = 'reserve' GROUP BY key HAVING count(*) > 1"


class Concluding:
    """The second action; minutes late for the episode that the disaster meets half way."""

    def __init__(self) -> None:
        self.delay_s = 600.0

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        slow = SLOW_TASK in json.dumps(body["messages"])
        return Reply(json.dumps({"answer": "42"}), delay_s=self.delay_s if slow else 0.0)


@pytest.fixture
def concluding() -> Concluding:
    return Concluding()


@pytest.fixture
def model(concluding: Concluding) -> Iterator[OpenAiServer]:
    with OpenAiServer(script=[SUM, concluding]) as server:
        yield server


@pytest.mark.chaos
@pytest.mark.timeout(900)  # three starts of the whole platform
def test_a_destroyed_platform_comes_back_from_its_backup(
    model: OpenAiServer, concluding: Concluding, tmp_path: Path
) -> None:
    with server_folder("disaster") as folder:
        podium = CommandLine(folder / "state")
        platform = Performed(podium, model, folder)
        platform.start()
        for _ in range(3):
            assert podium("run", TASK, "--tool", "calculator").stdout == "42\n"
        running = platform.start_slow_episode()
        platform.perform("backup")
        journal = platform.rows("cost_ledger", ENTRIES)
        assert podium("run", "What is lost?", "--tool", "calculator").returncode == 0
        platform.destroy()
        platform.perform("restore")
        refused = podium("restore", str(folder / "backups" / "today"))
        assert "is not empty" in refused.stderr

        concluding.delay_s = 0.0
        platform.start()
        assert platform.rows("cost_ledger", ENTRIES)[: len(journal)] == journal
        assert platform.ended(running)["stop_reason"] == "STOP_REASON_ANSWERED"
        assert platform.rows("cost_ledger", HELD_TWICE) == []
        assert podium("run", TASK, "--tool", "calculator").stdout == "42\n"
        platform.until(lambda: not platform.rows("cost_ledger", OPEN_HOLDS))
        assert podium("audit", "verify").returncode == 0
        # Three of before, the one that went on and the new one; not the one after the backup.
        platform.until(lambda: len(platform.trajectories()) == 5)
        assert len(platform.rows("episodes", "SELECT id FROM episodes")) == 5
        assert not asyncio.run(misreported(podium.state_dir))
        assert podium("down").returncode == 0


class Performed:
    """The runbook's commands, word for word, and the platform that they are for."""

    def __init__(self, podium: CommandLine, model: OpenAiServer, folder: Path) -> None:
        self._podium = podium
        self._model = model
        self._folder = folder
        self._commands = {line.split()[0]: line for line in COMMAND.findall(RUNBOOK.read_text())}

    def start(self) -> None:
        up = self._podium.json("up", "--detach", *engine_options(self._model))
        prices = self._folder / "prices.csv"
        if not prices.exists():
            prices.write_text(PRICES)
            imported = self._podium("prices", "import", str(prices))
            assert imported.returncode == 0, imported.stderr
        assert up["url"]

    def perform(self, name: str) -> None:
        """A command of the page; its folder is one of the test's."""
        words = [
            str(self._folder / word) if "/" in word else word
            for word in self._commands[name].split()
        ]
        ended = self._podium(*words)
        assert ended.returncode == 0, ended.stderr

    def start_slow_episode(self) -> str:
        """An episode that waits for its second answer, with money held for it."""
        before = len(self._model.requests)
        spec = {"task": SLOW_TASK, "tool_names": ["calculator"]}
        connection = self._connection()
        started = httpx.post(
            f"{connection['gateway_url']}/v1/episodes",
            headers={"Authorization": f"Bearer {connection['api_key']}"},
            json={"episode_id": new_id(), "spec": spec},
            trust_env=False,
        )
        assert started.is_success, started.text
        self.until(lambda: len(self._model.requests) >= before + 2)
        assert self.rows("cost_ledger", OPEN_HOLDS)
        return str(started.json()["episode"]["id"])

    def destroy(self) -> None:
        assert self._podium("down").returncode == 0
        shutil.rmtree(self._podium.state_dir)

    def ended(self, episode_id: str) -> dict[str, Any]:
        def find() -> dict[str, Any]:
            found: dict[str, Any] = self._podium.json("episodes", "show", episode_id)
            return found

        self.until(lambda: find()["state"] == "EPISODE_STATE_FINISHED")
        return find()

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        async def fetch() -> list[tuple[Any, ...]]:
            dsn = EmbeddedPostgres(self._podium.state_dir / "postgres").dsn(database)
            connection = await asyncpg.connect(dsn.replace("+asyncpg", ""))
            try:
                return [tuple(row) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        return asyncio.run(fetch())

    def trajectories(self) -> set[str]:
        """Record ids on the topic; each is there once."""
        consumer = KafkaConsumer(**KafkaSettings(**self._connection()["kafka"]).arguments())
        try:
            places = [TopicPartition(TOPIC, n) for n in consumer.partitions_for_topic(TOPIC) or ()]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            found: list[str] = []
            while any(consumer.position(place) < end for place, end in ends.items()):
                for records in consumer.poll(timeout_ms=500).values():
                    found += [dict(record.headers)["record-id"].decode() for record in records]
        finally:
            consumer.close()
        assert len(set(found)) == len(found), found
        return {each for each in found if each.startswith("trajectory:")}

    def _connection(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._podium.state_dir.joinpath(CONNECTION).read_text())
        return found

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            time.sleep(0.3)

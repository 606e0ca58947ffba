"""A tenant of its own on the running platform, whose books an auditor then looks at."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from typer.testing import CliRunner

from integration.podium_cli.conftest import Platform
from openai_server import Reply
from podium_cli.app import app
from podium_kit.embedded.postgres import EmbeddedPostgres

TENANT = "auditee"
PRICES = """sku,dimension,unit_price,per,tenant,source
orchestrator/scripted-model,input_fresh,0.2,1000000,auditee,the contract
orchestrator/scripted-model,output_text,0.9,1000000,auditee,the contract
tool/calculator,call,0.00012,,auditee,the contract
"""
QUESTIONS = ("6 * 7", "3 * 7", "1 / 0")


@dataclass(frozen=True)
class Terminal:
    """The command line against the running platform, without a process per command."""

    state_dir: Path
    api_key: str | None = None

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PODIUM_STATE_DIR": str(self.state_dir), "PODIUM_API_KEY": self.api_key}
        ended = CliRunner().invoke(app, list(arguments), env=environment)
        if ended.exception and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return subprocess.CompletedProcess(arguments, ended.exit_code, ended.stdout, ended.stderr)

    def json(self, *arguments: str) -> Any:
        ended = self(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)


@dataclass(frozen=True)
class Books:
    """The tenant's command line, its episodes, and its database as a superuser sees it."""

    podium: Terminal
    episode_ids: Sequence[str]
    database_url: str

    def total(self) -> Decimal:
        query = "SELECT sum(spend + provisional) AS total FROM entry WHERE tenant = $1"
        (row,) = self.sql(query, TENANT)
        return Decimal(row["total"])

    def sql(self, statement: str, *values: object, force: bool = False) -> list[Any]:
        """Rows of a statement; by force, no trigger is asked."""

        async def execute() -> list[Any]:
            connection = await asyncpg.connect(self.database_url.replace("+asyncpg", ""))
            try:
                if force:
                    await connection.execute("SET session_replication_role = replica")
                found: list[Any] = await connection.fetch(statement, *values)
                return found
            finally:
                await connection.close()

        return asyncio.run(execute())

    def get(self, path: str, **query: str) -> Any:
        connection = json.loads((self.podium.state_dir / "connection.json").read_text())
        headers = {"authorization": f"Bearer {self.podium.api_key}"}
        url = connection["gateway_url"]
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            return client.get(path, params=query).raise_for_status().json()

    def captures(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(
            "/v1/entries", kinds="ENTRY_KIND_CAPTURE", page_size="500"
        )["entries"]
        return found


def key_of(platform: Platform, role: str) -> str:
    """A key of the tenant, made as an operator makes one."""
    command = [sys.executable, "-m", "gateway", "keys", "create", "--tenant", TENANT]
    ended = subprocess.run(
        [*command, "--subject", "ada", "--role", role],
        env={
            "GATEWAY_DATABASE_URL": dsn(platform, "gateway"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.split()[-1]


def dsn(platform: Platform, database: str) -> str:
    return EmbeddedPostgres(platform.podium.state_dir / "postgres").dsn(database)


def as_tenant(platform: Platform, role: str) -> Terminal:
    return Terminal(platform.podium.state_dir, key_of(platform, role))


def open_books(platform: Platform, folder: Path) -> Books:
    """The tenant with its prices, after some episodes: answered ones and one whose tool failed."""
    podium = as_tenant(platform, "tenant-admin")
    (folder / "prices.csv").write_text(PRICES)
    imported = platform.podium("prices", "import", str(folder / "prices.csv"))
    assert imported.returncode == 0, imported.stderr
    return Books(
        podium, [run(platform, podium, each) for each in QUESTIONS], dsn(platform, "cost_ledger")
    )


def run(platform: Platform, podium: Terminal, expression: str) -> str:
    """The id of an episode of two turns. Providers repeat no request id, so the model's do not."""
    call = {"thought": "", "tool": "calculator", "arguments": {"expression": expression}}
    platform.model.push(Reply(json.dumps(call)), Reply('{"answer": "done"}'))
    ended = podium("run", f"What is {expression}?", "--label", "team=search", "--json")
    finished = json.loads(ended.stdout.splitlines()[-1])["finished"]
    return str(finished["episode"]["id"])

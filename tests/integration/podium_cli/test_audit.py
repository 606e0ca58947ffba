"""Every command of `podium spend` and `podium audit` on a real platform, and wrong input to them.

The books are those of one tenant after three episodes; what a test forges, it puts right.
"""

import asyncio
import csv
import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyarrow import parquet
from typer.testing import CliRunner

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.store_anchors import AnchorStore
from integration.cost_ledger.running_ledger import as_service
from integration.focus.validator import failures_of_1_0
from integration.podium_cli.conftest import Platform
from openai_server import Reply
from podium_cli.app import app
from podium_kit.anchors import DailyRoot, load_private_key, public_pem
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.postgres.engine import open_engine

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


def key_of(platform: Platform, role: str, tenant: str) -> str:
    """A key of the tenant, made as an operator makes one."""
    command = [sys.executable, "-m", "gateway", "keys", "create", "--tenant", tenant]
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


def as_tenant(platform: Platform, role: str, tenant: str = TENANT) -> Terminal:
    return Terminal(platform.podium.state_dir, key_of(platform, role, tenant))


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


NOW = datetime.now(UTC)
MONTH = f"{NOW:%Y-%m}"
LAST_MONTH = f"{NOW.replace(day=1) - timedelta(days=1):%Y-%m}"
PROVIDER = "orchestrator"


@pytest.fixture(scope="module")
def books(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Books]:
    yield open_books(platform, tmp_path_factory.mktemp("books"))


def cost_of(rows: list[dict[str, Any]]) -> Decimal:
    return sum((Decimal(each["amount"]) for row in rows for each in row["amounts"]), Decimal(0))


def invoice_of(captures: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The invoice of a provider that billed just what was posted."""
    return [
        {
            "request_id": each["usage"]["provider_request_id"],
            "sku": each["sku"],
            "time": each["occur_time"],
            "amount": each["amount"]["amount"],
        }
        for each in captures
        if each["sku"].startswith(f"{PROVIDER}/")
    ]


def write_csv(path: Path, rows: list[dict[str, str]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_trajectories_spend_and_journal_agree_to_the_last_digit(
    platform: Platform, books: Books
) -> None:
    trajectories = [
        books.get(f"/v1/episodes/{each}/trajectory")["trajectory"] for each in books.episode_ids
    ]
    total = sum(Decimal(each["cost"]["amount"]) for each in trajectories)
    assert total == books.total() > 0
    for groups in ("day", "model", "tool", "day,user,price"):
        assert cost_of(books.podium.json("spend", "--by", groups)["rows"]) == total, groups
    by_episode = books.podium.json("spend", "--by", "episode", "--month", MONTH)["rows"]
    assert {row["values"][0]: cost_of([row]) for row in by_episode} == {
        episode_id: Decimal(each["cost"]["amount"])
        for episode_id, each in zip(books.episode_ids, trajectories, strict=True)
    }
    by_tenant = Terminal(platform.podium.state_dir).json(
        "spend", "--by", "tenant", "--all-tenants"
    )["rows"]
    assert cost_of([row for row in by_tenant if row["values"] == [TENANT]]) == total


def test_an_entry_is_explained_down_to_its_hash(books: Books) -> None:
    capture = books.captures()[0]
    explained, by_key = (
        books.podium.json("audit", "explain", capture[name])["explanation"]
        for name in ("sequence", "key")
    )
    # Yesterday's root may be signed between the two.
    del explained["chain"]["anchor_day"], by_key["chain"]["anchor_day"]
    assert by_key == explained
    lines = explained["charge"]["lines"]
    parts = [
        Decimal(line["quantity"]["amount"]) * Decimal(line["unit_price"]) / Decimal(line["per"])
        for line in lines
    ]
    assert sum(parts) == Decimal(capture["amount"]["amount"]) > 0
    postings = explained["charge"]["entry"]["postings"]
    assert sum(Decimal(each["amount"]) for each in postings) == 0
    assert len(postings) == 4
    assert explained["chain"]["hash"] == explained["chain"]["recomputed_hash"]
    shown = books.podium("audit", "explain", capture["sequence"]).stdout
    for part in ("the contract", "balanced/1", "postings", "payable", "matches its content"):
        assert part in shown


def test_exports_add_up_to_what_was_spent(books: Books, tmp_path: Path) -> None:
    def exported(name: str, *options: str) -> Path:
        file = tmp_path / name
        ended = books.podium("audit", "export", "-o", str(file), "--month", MONTH, *options)
        assert ended.returncode == 0, ended.stderr
        return file

    with exported("all.csv").open() as opened:
        rows = list(csv.DictReader(opened))
    assert sum(Decimal(row["amount"]) for row in rows) == books.total()
    assert {row["tenant"] for row in rows} == {TENANT}
    table = parquet.read_table(exported("all.parquet", "--format", "parquet")).to_pylist()
    assert sum(row["amount"] for row in table) == books.total()
    for version in ("1.0", "1.2"):
        file = exported("focus.csv", "--format", "focus", "--focus-version", version)
        with file.open() as opened:
            billed = [Decimal(row["BilledCost"]) for row in csv.DictReader(opened)]
        assert sum(billed) == books.total()
    assert failures_of_1_0(exported("valid.csv", "--format", "focus")) == []
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_an_invoice_that_agrees_ends_well(books: Books, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "invoice.csv", invoice_of(books.captures()))
    ended = books.podium("audit", "reconcile", file, "--provider", PROVIDER, "--month", MONTH)
    assert ended.returncode == 0, ended.stderr
    assert "matched" in ended.stdout


def without_last_digit(amount: str) -> str:
    """The amount, rounded to one decimal place less than it has."""
    exact = Decimal(amount).normalize()
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    return f"{exact:.{-exponent - 1}f}"


def test_every_way_an_invoice_can_be_wrong_has_its_name(books: Books, tmp_path: Path) -> None:
    lines = invoice_of(books.captures())
    unpaid, rounded, more_expensive, *_ = lines
    rounded["amount"] = without_last_digit(rounded["amount"])
    more_expensive["amount"] = "0.5"
    foreign = {**lines[-1], "request_id": "nobody-asked"}
    lines = [*lines[1:], lines[-1], foreign]
    file = write_csv(tmp_path / "wrong.csv", lines)
    options = ("--provider", PROVIDER, "--month", MONTH)
    ended = books.podium("audit", "reconcile", file, *options, "--json")
    assert ended.returncode == 1
    told = json.loads(ended.stdout)
    counts = {
        each["state"].removeprefix("MATCH_STATE_"): each["count"] for each in told["summaries"]
    }
    assert counts == {
        "MATCHED": str(len(lines) - 4),
        "ROUNDED": "1",
        "DIFFERENT": "1",
        "DOUBLED_IN_INVOICE": "1",
        "MISSING_IN_LEDGER": "1",
        "MISSING_IN_INVOICE": "1",
    }
    by_state = {each["state"].removeprefix("MATCH_STATE_"): each for each in told["matches"]}
    missing = by_state["MISSING_IN_INVOICE"]["entry"]["usage"]["provider_request_id"]
    assert missing == unpaid["request_id"]
    assert by_state["MISSING_IN_LEDGER"]["line"]["provider_request_id"] == "nobody-asked"
    assert Decimal(by_state["DIFFERENT"]["line"]["amount"]["amount"]) == Decimal("0.5")


def test_a_call_of_another_month_is_late(books: Books, tmp_path: Path) -> None:
    equal, rounded, more_expensive, *_ = invoice_of(books.captures())
    rounded["amount"] = without_last_digit(rounded["amount"])
    more_expensive["amount"] = "0.5"
    file = write_csv(tmp_path / "late.csv", [equal, rounded, more_expensive])
    options = ("--provider", PROVIDER, "--month", LAST_MONTH)
    ended = books.podium("audit", "reconcile", file, *options, "--json")
    assert ended.returncode == 1
    assert [
        each["state"].removeprefix("MATCH_STATE_") for each in json.loads(ended.stdout)["matches"]
    ] == ["LATE", "LATE_ROUNDED", "LATE_DIFFERENT"]


def test_a_simulation_prices_the_past_at_other_prices(books: Books, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(
        "sku,dimension,unit_price,per\n"
        "orchestrator/scripted-model,input_fresh,0.4,1000000\n"
        "orchestrator/scripted-model,output_text,1.8,1000000\n"
    )
    options = ("--prices", str(tmp_path / "other.csv"), "--month", MONTH)
    told = books.podium.json("audit", "simulate", *options)
    costs = {cost["sku"]: cost for cost in told["costs"]}
    model = costs["orchestrator/scripted-model"]
    (posted,), (simulated,) = model["posted"], model["simulated"]
    assert Decimal(simulated["amount"]) == 2 * Decimal(posted["amount"]) > 0
    assert told["unpriced"] == ["tool/calculator"]
    shown = books.podium("audit", "simulate", *options).stdout
    assert "(+100.0%)" in shown.splitlines()[-3], shown


def test_an_entry_is_proved_with_the_public_key_alone(
    platform: Platform, books: Books, tmp_path: Path
) -> None:
    root = end_of_day(platform, books)
    listed = {
        each["day"]: each["root"] for each in books.podium.json("audit", "anchors")["anchors"]
    }
    assert b64decode(listed[root.day]) == root.root
    kept, others = tmp_path / "kept.pem", tmp_path / "others.pem"
    kept.write_text(public_pem(platform_key(platform).public_key()))
    others.write_text(public_pem(Ed25519PrivateKey.generate().public_key()))
    file, given = tmp_path / "proof.json", tmp_path / "given.pem"
    sequence = books.captures()[0]["sequence"]
    options = ("-o", str(file), "--key-output", str(given))
    proved = books.podium("audit", "prove", sequence, *options)
    assert proved.returncode == 0, proved.stderr
    proof = json.loads(file.read_text())
    # The platform may have signed an earlier day already, and the first root is the proof's.
    assert listed[proof["anchor"]["day"]] == proof["anchor"]["root"]
    assert f"entry {sequence} is under the root of {proof['anchor']['day']}" in proved.stdout
    assert given.read_text() == kept.read_text()
    nowhere = Terminal(tmp_path / "no-platform")
    assert checked(nowhere, file, kept) == (0, ["yes", "yes", "yes"])
    assert checked(nowhere, file, others) == (1, ["yes", "yes", "NO"])
    file.write_text(json.dumps(proof | {"content": proof["content"].replace("USD", "EUR")}))
    assert checked(nowhere, file, kept) == (1, ["NO", "yes", "yes"])


def platform_key(platform: Platform) -> Ed25519PrivateKey:
    return load_private_key((platform.podium.state_dir / "keys" / "ledger-anchor.pem").read_bytes())


def end_of_day(platform: Platform, books: Books) -> DailyRoot:
    async def sign() -> DailyRoot:
        engine = open_engine(as_service(books.database_url))
        try:
            anchors = Anchors(AnchorStore(engine), platform_key(platform))
            signed = await anchors.sign_day(datetime.now(UTC).date(), datetime.now(UTC))
        finally:
            await engine.dispose()
        assert signed
        return signed.root

    return asyncio.run(sign())


def checked(podium: Terminal, proof: Path, key: Path) -> tuple[int, list[str]]:
    ended = podium("audit", "check-proof", str(proof), "--public-key", str(key))
    return ended.returncode, [line.split()[-1] for line in ended.stdout.splitlines()]


def test_months_are_closed_by_an_admin_and_stay_closed(platform: Platform, books: Books) -> None:
    auditor = as_tenant(platform, "auditor")
    rejected = auditor("audit", "close", LAST_MONTH)
    assert (rejected.returncode, "tenant:admin" in rejected.stderr) == (1, True)
    first = books.podium.json("audit", "close", LAST_MONTH)["entry"]
    assert first["kind"] == "ENTRY_KIND_CLOSE"
    assert books.podium.json("audit", "close", LAST_MONTH)["entry"] == first
    for month, cause in ((MONTH, "in the future"), ("2020-01", "are closed already")):
        ended = books.podium("audit", "close", month)
        assert (ended.returncode, cause in ended.stderr) == (1, True), ended.stderr
        assert " fix: " in ended.stderr
    log = auditor.json("audit", "log", "--action", "ClosePeriod")["entries"]
    assert [entry["outcome"] for entry in log].count("done") == 2


def test_an_admin_corrects_costs_and_the_audit_log_shows_it(
    platform: Platform, books: Books
) -> None:
    auditor = as_tenant(platform, "auditor")
    capture = books.captures()[0]
    adjust = ("audit", "adjust", capture["sequence"], "0.25", "--reason", "billed twice")
    assert "tenant:admin" in auditor(*adjust).stderr
    entry = books.podium.json(*adjust)["entry"]
    assert (entry["kind"], entry["corrects_sequence"]) == (
        "ENTRY_KIND_ADJUST",
        capture["sequence"],
    )
    assert books.podium.json(*adjust)["entry"] == entry
    books.podium.json(*adjust, "--credit")
    final = books.podium("audit", "settle", capture["key"], "output_text=1")
    assert (final.returncode, "its usage is no estimate" in final.stderr) == (1, True), final.stderr
    unsaid = books.podium("audit", "settle", capture["key"])
    assert (unsaid.returncode, "its usage is no estimate" in unsaid.stderr) == (1, True)
    nameless = books.podium("audit", "settle", capture["key"], "--request-id", "r1")
    assert (nameless.returncode, "DIMENSION=AMOUNT" in nameless.stderr) == (2, True)
    typo = books.podium("audit", "settle", capture["key"], "words=1")
    assert "output_text" in typo.stderr
    for action, done in (("Adjust", 3), ("Settle", 0)):
        log = auditor.json("audit", "log", "--action", action)["entries"]
        assert [one["outcome"] for one in log].count("done") == done
    assert books.podium("audit", "verify").returncode == 0


def test_unknown_costs_are_settled_together_once_there_are_prices(
    platform: Platform, tmp_path: Path
) -> None:
    podium = as_tenant(platform, "tenant-admin", "newcomer")
    run(platform, podium, "2 * 3")
    unpriced = podium.json("audit", "entries", "--unpriced")["entries"]
    model = [entry["key"] for entry in unpriced if entry["sku"] == "orchestrator/scripted-model"]
    assert len(model) == 2
    first = podium("audit", "entries", "--unpriced", "--limit", "1")
    assert (first.stdout.count("unknown"), "there are more" in first.stderr) == (1, True)
    left = podium("audit", "settle", "--unpriced")
    assert f"0 calls settled, {len(unpriced)} left" in left.stderr
    assert left.stdout.count("had no price at") == len(unpriced)

    (tmp_path / "late.csv").write_text(
        "sku,dimension,unit_price,per,tenant,valid_from\n"
        "orchestrator/scripted-model,input_fresh,0.2,1000000,newcomer,2026-01-01T00:00:00Z\n"
        "orchestrator/scripted-model,output_text,0.9,1000000,newcomer,2026-01-01T00:00:00Z\n"
    )
    imported = platform.podium("prices", "import", str(tmp_path / "late.csv"))
    assert imported.returncode == 0, imported.stderr
    settled = podium.json("audit", "settle", "--unpriced")
    assert [entry["key"] for entry in settled["settled"]] == model
    still = podium.json("audit", "entries", "--unpriced")["entries"]
    assert [entry["key"] for entry in still] == [each["key"] for each in settled["left"]]
    assert len(still) == len(unpriced) - len(model)
    spent = podium.json("spend", "--by", "model")["rows"]
    assert cost_of([row for row in spent if row["values"] == ["scripted-model"]]) == sum(
        Decimal(entry["amount"]["amount"]) for entry in settled["settled"]
    )
    assert podium("audit", "verify").returncode == 0


def test_either_one_call_is_settled_or_all_whose_price_is_known(platform: Platform) -> None:
    podium = as_tenant(platform, "tenant-admin", "without-calls")
    assert podium("audit", "entries", "--unpriced").stdout == "no cost is unknown\n"
    assert podium("audit", "settle", "--unpriced").stdout == "no cost is unknown\n"
    for arguments in ((), ("some-key", "--unpriced")):
        ended = podium("audit", "settle", *arguments)
        assert (ended.returncode, "--unpriced" in ended.stderr) == (2, True), ended.stderr


def test_a_forged_entry_is_named_by_verify(books: Books) -> None:
    whole = books.podium("audit", "verify")
    assert (whole.returncode, "nothing is wrong" in whole.stderr) == (0, True), whole.stdout
    # A report brings the daily sums up to date, or they would count what is forged here.
    books.podium.json("spend")
    sequence = int(books.captures()[0]["sequence"])
    forge = "UPDATE entry SET spend = spend + {0}, payable = payable - {0} WHERE tenant = $1"
    forge += " AND sequence = $2"
    books.sql(forge.format("0.01"), TENANT, sequence, force=True)
    try:
        forged = books.podium("audit", "verify")
        assert forged.returncode == 1
        for rule in ("I9 chain", "I8"):
            assert f"\n{rule}\tBROKEN\t" in forged.stdout
            assert f"\n{rule}\tentry {sequence}\t" in forged.stdout
        explained = books.podium("audit", "explain", str(sequence))
        assert "DOES NOT MATCH ITS CONTENT" in explained.stdout
    finally:
        books.sql(forge.format("-0.01"), TENANT, sequence, force=True)
    assert books.podium("audit", "verify").returncode == 0


INVOICE = "request_id,sku,time,amount\n"
RECONCILE = ("--provider", "openai", "--month", "2026-10")
FILES = {
    "empty.csv": b"",
    "latin.csv": b"request_id,sku,time,amount\n\xff,gpt-5,2026-10-01,1\n",
    "columns.csv": b"number;model;price\n1;gpt-5;2\n",
    "amount.csv": f"{INVOICE}a,gpt-5,2026-10-01,two\n".encode(),
    "time.csv": f"{INVOICE}a,gpt-5,31.10.2026,1\n".encode(),
    "prices.csv": b"sku,dimension,unit_price\nm,input_fresh,1\nm,tokens,2\n",
    "header.csv": b"sku,dimension,unit_price\n",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "cause", "fix"),
    [
        (["audit", "explain", "999999"], 1, "has no entry '999999'", "its sequence or the key"),
        (["audit", "explain", "1", "--tenant", "nobody"], 1, "journal of nobody", "sequence"),
        (["audit", "verify", "--from", "999999"], 1, "the journal ends with entry", "begin"),
        (["audit", "close", "October"], 2, "'October' is no month", "2026-10"),
        (["audit", "close", "2999-01"], 1, "in the future", "when it has passed"),
        (["audit", "export", "-o", "no/file.csv"], 2, "no such folder", "make it"),
        (["audit", "export", "-o", "/proc/file.csv"], 2, "cannot write", "you may write"),
        (["audit", "export", "-o", "."], 2, "is a folder", "name a file"),
        (["audit", "export", "-o", "x", "--format", "xml"], 2, "'xml'", "parquet"),
        (["audit", "export", "-o", "x", "--focus-version", "1.2"], 2, "csv", "--format focus"),
        (["audit", "export", "-o", "x", "--month", "2026-13"], 2, "'2026-13'", "2026-10"),
        (["audit", "reconcile", "nowhere.csv", *RECONCILE], 2, "No such file", "CSV or JSON"),
        (["audit", "reconcile", "latin.csv", *RECONCILE], 2, "not UTF-8", "UTF-8"),
        (["audit", "reconcile", "empty.csv", *RECONCILE], 2, "holds no lines", "request_id"),
        (["audit", "reconcile", "columns.csv", *RECONCILE], 2, "no column time", "request_id"),
        (["audit", "reconcile", "amount.csv", *RECONCILE], 2, "line 1: amount 'two'", "columns"),
        (["audit", "reconcile", "time.csv", *RECONCILE], 2, "'31.10.2026'", "columns"),
        (["audit", "check-proof", "prices.csv", "--public-key", "x"], 2, "prices.csv", "fix"),
        (
            ["audit", "simulate", "--prices", "prices.csv", "--month", "2026-10"],
            2,
            "prices.csv: line 3: dimension is 'tokens'",
            "input_fresh, cache_read",
        ),
        (["prices", "import", "header.csv"], 2, "holds no price", "at least one"),
        (["spend", "--since", "yesterday"], 2, "'yesterday' is not a time", "2026-"),
        (["spend", "--by", "tenant"], 2, "over all of them", "--all-tenants"),
        (["spend", "--month", "2026-10", "--since", "2026-10-02"], 2, "--month", "--since"),
    ],
)
def test_a_mistake_is_reported_in_two_lines(
    platform: Platform, files: Path, arguments: list[str], status: int, cause: str, fix: str
) -> None:
    ended = Terminal(platform.podium.state_dir)(*arguments)
    assert (ended.returncode, ended.stdout) == (status, "")
    message = " ".join(ended.stderr.split())
    first, second = message.split(" fix: ", maxsplit=1)
    assert first.startswith("error: ")
    assert cause in first
    assert fix in second
    assert sorted(file.name for file in files.iterdir()) == sorted(FILES)


def test_without_an_audit_scope_or_in_another_tenant_no_books_are_visible(
    platform: Platform,
) -> None:
    owner, developer = as_tenant(platform, "tool-owner"), as_tenant(platform, "developer")
    for arguments in (["audit", "verify"], ["audit", "explain", "1"], ["spend"]):
        rejected = owner(*arguments)
        assert (rejected.returncode, "spend:read" in rejected.stderr) == (1, True)
    foreign = developer("audit", "explain", "1", "--tenant", "default")
    assert (foreign.returncode, "platform:admin" in foreign.stderr) == (1, True)

import asyncio
import csv
import json
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyarrow import parquet

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.store_anchors import AnchorStore
from integration.cost_ledger.running_ledger import as_service
from integration.focus.validator import failures_of_1_0
from integration.podium_cli.audited_tenant import TENANT, Books, Terminal, as_tenant, open_books
from integration.podium_cli.conftest import Platform
from podium_kit.anchors import DailyRoot, load_private_key, public_pem
from podium_kit.postgres.engine import open_engine

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
    typo = books.podium("audit", "settle", capture["key"], "words=1")
    assert "output_text" in typo.stderr
    for action, done in (("Adjust", 3), ("Settle", 0)):
        log = auditor.json("audit", "log", "--action", action)["entries"]
        assert [one["outcome"] for one in log].count("done") == done
    assert books.podium("audit", "verify").returncode == 0


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

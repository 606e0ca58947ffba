from pathlib import Path

import pytest

from integration.podium_cli.audited_tenant import Terminal, as_tenant
from integration.podium_cli.conftest import Platform

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

"""Corpora through the command line: files in, passages with their places out."""

from pathlib import Path

from builders.corpus_documents import make_pdf
from integration.podium_cli.conftest import CommandLine


def test_files_are_added_searched_listed_and_removed(podium: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "leave.md").write_text("# Leave\n\n## Sick\n\nCall in by nine.\n")
    (tmp_path / "deep" / "pay.html").write_text("<h1>Pay</h1><p>Paid on the 25th.</p>")
    (tmp_path / "plain.txt").write_text("Trains before planes.")
    (tmp_path / "guide.pdf").write_bytes(make_pdf("Cover.", "The vault opens with cobalt."))
    (tmp_path / "ignored.png").write_bytes(b"\x89PNG")
    added = podium("corpus", "add", "guides", str(tmp_path), "--url-prefix", "https://x.test/")
    assert "4 of 4 documents new or changed" in added.stdout
    assert "deep/pay.html" in added.stderr
    again = podium("corpus", "add", "guides", str(tmp_path), "--url-prefix", "https://x.test/")
    assert "0 of 4 documents" in again.stdout

    found = podium.json("corpus", "search", "guides", "cobalt vault")["hits"]
    assert (found[0]["document_id"], found[0]["page"]) == ("guide.pdf", 2)
    assert found[0]["uri"] == "https://x.test/guide.pdf"
    shown = podium("corpus", "search", "guides", "call in by nine").stdout
    assert "leave · Leave > Sick (https://x.test/leave.md)" in shown

    assert "guides" in podium("corpus", "list").stdout
    documents = podium.json("corpus", "list", "guides")["documents"]
    assert [each["id"] for each in documents] == [
        "deep/pay.html",
        "guide.pdf",
        "leave.md",
        "plain.txt",
    ]
    assert "1 document deleted" in podium("corpus", "delete", "guides", "plain.txt").stdout
    assert "3 documents deleted" in podium("corpus", "delete", "guides", "--all").stdout
    assert podium("corpus", "search", "guides", "cobalt").returncode == 1


def test_files_that_cannot_be_read_are_named(podium: CommandLine, tmp_path: Path) -> None:
    for name, content, words in (
        ("bad.txt", b"\xff\xfe\x00", "no UTF-8 text"),
        ("nul.txt", b"a\0b", "binary file"),
        ("huge.md", b"x" * (10 * 2**20 + 1), "larger than 10 MiB"),
        ("photo.png", b"\x89PNG", "of no known kind"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        ended = podium("corpus", "add", "guides", str(path))
        assert ended.returncode == 2
        assert name in ended.stderr
        assert words in ended.stderr
    path = tmp_path / "locked.pdf"
    path.write_bytes(make_pdf("text", password="secret"))
    ended = podium("corpus", "add", "guides", str(path))
    assert ended.returncode == 1
    assert "'locked.pdf' is encrypted" in ended.stderr


def test_remove_wants_to_know_what(podium: CommandLine) -> None:
    assert "--all" in podium("corpus", "delete", "guides").stderr

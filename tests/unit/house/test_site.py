from unit.house.source_files import ROOT


def test_no_page_is_left_out_of_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert [page for page in pages if f" {page}\n" not in navigation] == []

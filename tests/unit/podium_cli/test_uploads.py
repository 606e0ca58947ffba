"""Files as documents: no file takes the place of another."""

from pathlib import Path

import pytest

from podium_cli.corpus.uploads import uploads
from podium_kit.client.errors import UsageError


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with a file of the same name."""
    found = tmp_path / "guide", tmp_path / "api"
    for folder in found:
        folder.mkdir()
        (folder / "index.md").write_text(folder.name)
    return found


def test_files_of_one_name_are_not_one_document(folders: tuple[Path, Path]) -> None:
    files = [folder / "index.md" for folder in folders]
    for named in (folders, files):
        with pytest.raises(UsageError, match=r"would both be document index\.md") as rejected:
            uploads(named)
        assert "folder that both are in" in rejected.value.fix
    [one, other] = uploads([folders[0].parent])
    assert {one.document_id, other.document_id} == {"guide/index.md", "api/index.md"}


def test_a_file_that_is_named_twice_is_added_once(folders: tuple[Path, Path]) -> None:
    assert len(uploads([folders[0], folders[0] / "index.md"])) == 1

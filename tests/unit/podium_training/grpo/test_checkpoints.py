"""A checkpoint is what was written, or the file that is not is named."""

from pathlib import Path

import pytest
import torch

from podium_training.grpo.checkpoints import (
    MANIFEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    Checkpoint,
    DamagedCheckpoint,
    load,
    save,
)


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
@pytest.mark.parametrize("content", [b"", b"[]", None])
def test_a_file_that_is_missing_or_damaged_is_named(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    path = saved(tmp_path)
    damage(path / name, content)
    with pytest.raises(DamagedCheckpoint, match=f"{name} is not what was written; remove {path}"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", None])
def test_a_manifest_names_every_file(content: bytes | None, tmp_path: Path) -> None:
    path = saved(tmp_path)
    damage(path / MANIFEST, content)
    with pytest.raises(DamagedCheckpoint, match="is not what was written"):
        load(path)


def test_no_file_is_read_whole_to_check_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    monkeypatch.delattr(Path, "read_bytes")
    assert load(path).step == 4


def saved(folder: Path) -> Path:
    path = save(folder, Checkpoint(4, {"weight": torch.ones(2)}, {"state": {}}, {"seen": []}))
    assert load(path).state == {"seen": []}
    return path


def damage(file: Path, content: bytes | None) -> None:
    assert file.exists()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)

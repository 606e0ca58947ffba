"""Versions are whole or not there, and names are used once."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.policy_versions import (
    Alias,
    Aliases,
    ArtifactRejected,
    Canary,
    CanaryPrompt,
    Format,
    InvalidVersionName,
    Manifest,
    NoEarlierVersion,
    Unreadable,
    VersionName,
    VersionStore,
    canary_fault,
)

NAME = "policy-demo-v1"


def make_canary(logprob: float = -1.0) -> Canary:
    prompts = [
        CanaryPrompt(prompt_ids=(n,), next_ids=(1, 2), logprobs=(logprob, logprob))
        for n in range(16)
    ]
    return Canary(prompts=tuple(prompts))


def make_manifest(name: str = NAME, format: Format = Format.MERGED) -> Manifest:
    return Manifest(
        name=name,
        format=format,
        files={},
        base_digest="0" * 64,
        parent="",
        step=1,
        offsets={0: 7},
        canary=make_canary(),
    )


def fill(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")


def test_a_version_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "store")
    written = store.write(make_manifest(), fill)
    assert store.verified(NAME) == written
    assert store.names() == [VersionName("demo", 1)]
    assert written.files.keys() == {"model.safetensors", "config.json"}


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)

    def interrupted(folder: Path) -> None:
        fill(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(make_manifest(), interrupted)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_no_version_and_blocks_nobody(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    killed, other = (tmp_path / f".partial-{name}-abc" for name in (NAME, f"{NAME}-more-v2"))
    for partial in (killed, other):
        partial.mkdir()
        fill(partial)
    assert store.names() == []
    store.write(make_manifest(), fill)
    assert store.names() == [VersionName("demo", 1)]
    assert other.exists() and not killed.exists()


def test_a_name_is_never_reused(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    assert not store.is_taken(NAME)
    store.write(make_manifest(), fill)
    assert store.is_taken(NAME) and not store.is_retired(NAME)
    with pytest.raises(ArtifactRejected, match="the name is taken"):
        store.write(make_manifest(), fill)
    store.remove(NAME)
    assert store.names() == []
    assert store.is_taken(NAME) and store.is_retired(NAME)
    with pytest.raises(ArtifactRejected, match="used before"):
        store.write(make_manifest(), fill)


def test_a_version_without_its_weights_is_not_written(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    with pytest.raises(ArtifactRejected, match=r"adapter versions hold adapter_model\.safetensors"):
        store.write(make_manifest(format=Format.ADAPTER), fill)
    assert store.names() == []


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "more").write_text(""), "more does not belong to it"),
        (lambda folder: (folder / "config.json").write_text("[]"), "not what was written"),
        (lambda folder: (folder / "manifest.json").unlink(), "half written"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest is damaged"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "damaged: name"),
    ],
)
def test_a_damaged_version_is_rejected_with_the_reason(
    tmp_path: Path, damage: object, why: str
) -> None:
    store = VersionStore(tmp_path)
    store.write(make_manifest(), fill)
    assert callable(damage)
    damage(tmp_path / NAME)
    with pytest.raises(ArtifactRejected, match=why):
        store.verified(NAME)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    written = store.write(make_manifest(), fill)
    config = tmp_path / NAME / "config.json"
    config.unlink()
    config.mkdir()
    with pytest.raises(Unreadable, match=r"config\.json cannot be read: Is a directory"):
        store.verified(NAME)
    config.rmdir()
    config.write_text("{}")
    assert store.verified(NAME) == written


def test_a_copy_under_another_name_is_rejected(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    store.write(make_manifest(), fill)
    shutil.copytree(tmp_path / NAME, tmp_path / "policy-demo-v2")
    with pytest.raises(ArtifactRejected, match="its manifest is that of policy-demo-v1"):
        store.verified("policy-demo-v2")


def test_a_manifest_cannot_name_files_outside_of_its_folder() -> None:
    with pytest.raises(ValueError, match="no name of a file"):
        Manifest(**(make_manifest().model_dump() | {"files": {"../../keys.json": "0" * 64}}))


@given(st.text(max_size=20))
def test_only_names_of_versions_are_names(text: str) -> None:
    with pytest.raises(InvalidVersionName):
        VersionName.parse(f"policy-{text}/../x-v1")


@given(st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True), st.integers(0, 99_999_999))
def test_names_are_parsed_back(run: str, number: int) -> None:
    name = VersionName(run, number)
    assert VersionName.parse(str(name)) == name


def test_an_alias_moves_and_goes_back(tmp_path: Path) -> None:
    aliases = Aliases(tmp_path)
    assert aliases.current(Alias.PROMOTED) == ""
    for number in (1, 2):
        aliases.move(Alias.PROMOTED, f"policy-demo-v{number}")
    assert aliases.back(Alias.PROMOTED, "policy-demo-v2") == NAME
    assert aliases.current(Alias.PROMOTED) == NAME
    for name in (NAME, "policy-demo-v2"):
        # Nothing before it; and what was taken back already is not taken back again.
        with pytest.raises(NoEarlierVersion):
            aliases.back(Alias.PROMOTED, name)


def test_a_damaged_alias_is_reported_and_not_treated_as_missing(tmp_path: Path) -> None:
    aliases = Aliases(tmp_path)
    aliases.move(Alias.PROMOTED, NAME)
    (tmp_path / "aliases" / "promoted.json").write_text('{"history": ["x"')
    with pytest.raises(ArtifactRejected, match=r"promoted\.json is damaged") as rejected:
        aliases.current(Alias.PROMOTED)
    (content,) = re.findall(r"\{.*\}", rejected.value.why)
    (tmp_path / "aliases" / "promoted.json").write_text(content.replace("<version>", NAME))
    assert aliases.current(Alias.PROMOTED) == NAME


def test_a_canary_within_noise_passes_and_one_beyond_does_not() -> None:
    served = make_canary(-1.05).logprobs
    assert canary_fault(served, make_canary(), [], tolerance_nats=0.06) is None
    fault = canary_fault(served, make_canary(), [], tolerance_nats=0.04)
    assert fault is not None
    assert "0.05 nats a token" in fault


def test_how_rare_a_token_is_that_is_never_said_is_noise() -> None:
    assert canary_fault(make_canary(-21.0).logprobs, make_canary(-17.0), [], 0.04) is None
    fault = canary_fault(make_canary(-21.0).logprobs, make_canary(-8.0), [], 0.04)
    assert fault is not None and "2 nats a token" in fault


def test_an_answer_nearer_to_another_version_is_a_stale_one() -> None:
    served, own, other = make_canary(-1.06).logprobs, make_canary(-1.0), make_canary(-1.08)
    assert canary_fault(served, own, [], 0.1) is None
    assert canary_fault(served, own, [other], 0.1) == (
        "canary is nearer to another version than to this one"
    )


def test_an_answer_that_is_no_number_is_a_fault() -> None:
    served = [[float("nan")] * 2] * 16
    assert canary_fault(served, make_canary(), [], 0.1) is not None
    assert canary_fault([], make_canary(), [], 0.1) is not None

"""Secrets: found by owner and name, named when missing, never repeated."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tool_adapters.adapter import CallFailed
from tool_adapters.secret_store import (
    PLATFORM,
    KnownSecrets,
    MountedSecrets,
    for_header,
)
from tool_adapters.secrets.models import Owner, SecretInfo
from tool_adapters.used_secrets import noting_secrets, used_secrets


async def test_a_variable_comes_before_a_file(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("from the file\n")
    secrets = MountedSecrets(tmp_path, {"TOOL_ADAPTERS_SECRET_API_KEY": "from the variable"})
    assert await secrets.value(PLATFORM, "api-key") == "from the variable"
    assert await MountedSecrets(tmp_path, {}).value(PLATFORM, "api-key") == "from the file"


async def test_a_rotated_file_is_read_again(tmp_path: Path) -> None:
    secrets = MountedSecrets(tmp_path, {})
    (tmp_path / "key").write_text("old")
    assert await secrets.value(PLATFORM, "key") == "old"
    (tmp_path / "key").write_text("new")
    assert await secrets.value(PLATFORM, "key") == "new"


async def test_a_tenant_has_secrets_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "key").write_text("of acme")
    secrets = MountedSecrets(tmp_path, {"TOOL_ADAPTERS_SECRET_KEY": "of the platform"})
    assert await secrets.value("acme", "key") == "of acme"
    with pytest.raises(CallFailed, match="TOOL_ADAPTERS_SECRET_OTHER__KEY"):
        await secrets.value("other", "key")


@pytest.mark.parametrize("name", ["../key", "/etc/passwd", "", "a__b", "acme/key", "."])
async def test_a_name_cannot_move_to_another_owner(tmp_path: Path, name: str) -> None:
    secrets = MountedSecrets(tmp_path, {"TOOL_ADAPTERS_SECRET_A__B": "of tenant a"})
    with pytest.raises(CallFailed, match="cannot be the name"):
        await secrets.value(PLATFORM, name)


@pytest.mark.parametrize("tenant", ["team.a", "team_a", "Team-A", "team-a-"])
async def test_a_variable_is_read_for_one_tenant_alone(tmp_path: Path, tenant: str) -> None:
    secrets = MountedSecrets(tmp_path, {"TOOL_ADAPTERS_SECRET_TEAM_A__KEY": "of team-a"})
    assert await secrets.value("team-a", "key") == "of team-a"
    with pytest.raises(
        CallFailed, match=r"podium secrets set key.*mount the file key.* single dashes"
    ):
        await secrets.value(tenant, "key")
    (tmp_path / tenant).mkdir()
    (tmp_path / tenant / "key").write_text("its own")
    assert await secrets.value(tenant, "key") == "its own"


@pytest.mark.parametrize(
    ("tenant", "name"), [("acme", "dev--key"), ("acme", "dev-.key"), (PLATFORM, "acme--dev--key")]
)
async def test_a_name_cannot_move_to_another_tenants_variable(tenant: str, name: str) -> None:
    variables = {"TOOL_ADAPTERS_SECRET_ACME__DEV__KEY": "of another tenant"}
    with pytest.raises(CallFailed, match="no variable is read for it"):
        await MountedSecrets(None, variables).value(tenant, name)


async def test_what_a_call_was_given_is_redacted_from_its_answer() -> None:
    secrets = MountedSecrets(None, {"TOOL_ADAPTERS_SECRET_KEY": "s3cr3t-value"})
    with noting_secrets() as used:
        await secrets.value(PLATFORM, "key")
    assert used.redact("wrong key s3cr3t-value!") == "wrong key [secret]!"


async def test_what_was_made_from_a_secret_is_redacted_as_a_whole() -> None:
    secrets = MountedSecrets(None, {"TOOL_ADAPTERS_SECRET_KEY": "s3cr3t-value"})
    with noting_secrets() as used:
        value = await secrets.value(PLATFORM, "key")
        used_secrets().add(f"ada:{value}:more")
    assert used.redact(f"<ada:{value}:more> <{value}>") == "<[secret]> <[secret]>"


class Stored:
    """One secret in the database."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def value(self, owner: Owner, name: str) -> tuple[SecretInfo, str]:
        return SecretInfo(name, 1, (), datetime.now(UTC), "ada"), self._value


async def test_the_end_of_its_line_is_no_part_of_a_secret() -> None:
    database: Any = Stored("s3cr3t-stored\n")
    mounted = MountedSecrets(None, {"TOOL_ADAPTERS_SECRET_KEY": "s3cr3t-mounted\n"})
    secrets = KnownSecrets(mounted, database)
    with noting_secrets() as used:
        assert await secrets.value("acme", "key") == "s3cr3t-stored"
        assert await secrets.value(PLATFORM, "key") == "s3cr3t-mounted"
    assert used.redact("<s3cr3t-stored> <s3cr3t-mounted>") == "<[secret]> <[secret]>"


def test_a_secret_of_two_lines_goes_into_no_header_and_no_message() -> None:
    with pytest.raises(CallFailed, match="the secret key goes into a header") as rejected:
        for_header("key", "s3cr3t\nvalue")
    assert "s3cr3t" not in rejected.value.failure.message
    assert rejected.value.unsent


async def test_a_call_without_its_secret_has_not_left() -> None:
    with pytest.raises(CallFailed) as missing:
        await MountedSecrets(None, {}).value("acme", "key")
    assert missing.value.unsent

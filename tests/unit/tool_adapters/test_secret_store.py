from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from podium_kit.failures import ToolFailure
from podium_kit.tool_kinds import HTTP
from tool_adapters.adapter import Answer, CallFailed, Output, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.http.adapter import HttpAdapter
from tool_adapters.http.client import WORDS_OF_ERRORS_MAX, HttpReply
from tool_adapters.models import HttpConnection, SideEffect, ToolDefinition
from tool_adapters.secret_store import (
    PLATFORM,
    KnownSecrets,
    MountedSecrets,
    for_header,
)
from tool_adapters.secrets.envelope import seal
from tool_adapters.secrets.errors import NoMasterKey
from tool_adapters.secrets.models import Owner, Sealed, SecretInfo
from tool_adapters.secrets.service import BATCH, Secrets
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


Place = tuple[Owner, str]


class Keys:
    def __init__(self, *ids: str) -> None:
        self._ids = ids

    async def current_id(self) -> str:
        return self._ids[-1]

    async def wrap(self, key: bytes, context: bytes) -> tuple[str, bytes]:
        return self._ids[-1], key

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        if key_id not in self._ids:
            raise NoMasterKey(f"the master key {key_id} is not in the file any more; add it again")
        return wrapped


@dataclass
class Table:
    rows: dict[Place, Sealed] = field(default_factory=dict)

    async def under_others(
        self, key_id: str, after: Place, limit: int
    ) -> list[tuple[Owner, str, Sealed]]:
        found = sorted(self.rows.items(), key=lambda row: row[0][1])
        former = [(*place, sealed) for place, sealed in found if sealed.key_id != key_id]
        return [each for each in former if each[1] > after[1]][:limit]

    async def rewrap(self, owner: Owner, name: str, sealed: Sealed) -> None:
        self.rows[owner, name] = sealed


async def test_a_secret_whose_key_is_gone_keeps_no_other_under_its_former_one() -> None:
    acme, table = Owner("acme"), Table()
    for number in range(3 * BATCH):
        name = f"key-{number:03}"
        # More than a round of them are lost.
        keys = Keys("lost" if number < 2 * BATCH else "former")
        table.rows[acme, name] = await seal(keys, acme, name, "s3cr3t")
    known: Any = table
    with pytest.raises(NoMasterKey, match="the master key lost is not in the file"):
        await Secrets(known, Keys("former", "current")).rewrap()
    assert {sealed.key_id for sealed in table.rows.values()} == {"lost", "current"}


SECRET = "s3cr3t-value"


class RepeatingClient:
    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply

    async def send(self, *_: Any) -> HttpReply:
        used_secrets().add(SECRET)
        return self._reply


async def answer_to(status: int, media_type: str, body: bytes) -> Answer:
    client: Any = RepeatingClient(HttpReply(status, {"content-type": media_type}, body))
    no_credentials: Any = None
    attempts = Attempts({HTTP: HttpAdapter(client, no_credentials)})
    tool = ToolDefinition(
        name="api",
        version=1,
        kind=HTTP,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=HttpConnection("GET", "https://api.example.com/"),
        side_effect=SideEffect.PURE,
    )
    call = ToolCall("k", "e", "api", 1, {}, "", "", 0, "acme")
    return await attempts.make(CallProgress(call, tool))


@pytest.mark.parametrize(
    "media_type", ["application/x-ndjson", "application/x-www-form-urlencoded"]
)
async def test_lines_of_json_and_forms_are_text(media_type: str) -> None:
    outcome = (await answer_to(200, media_type, f"key={SECRET}".encode())).outcome
    assert outcome == Output("key=[secret]")


async def test_a_file_keeps_every_byte_but_those_of_a_secret() -> None:
    noise = bytes(range(256))
    body = noise + SECRET.encode() + noise + b"\xc3" + SECRET.encode()
    outcome = (await answer_to(200, f"image/{SECRET}", body)).outcome
    assert isinstance(outcome, Output)
    (file,) = outcome.files
    assert file.data == noise + b"[secret]" + noise + b"\xc3[secret]"
    assert file.media_type == "image/[secret]"


async def test_words_of_an_error_are_not_cut_in_a_secret() -> None:
    padding = "x" * (WORDS_OF_ERRORS_MAX - 10)
    outcome = (await answer_to(401, "text/plain", f"{padding} {SECRET} ".encode())).outcome
    assert isinstance(outcome, ToolFailure)
    assert outcome.message.endswith(f"status 401: {padding} ")

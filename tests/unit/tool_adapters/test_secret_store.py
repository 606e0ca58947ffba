import asyncio
import base64
import html
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.tool_calls import tool_call, tool_definition
from podium_kit.failures import ToolFailure
from podium_kit.tool_kinds import HTTP
from tool_adapters.adapter import Answer, CallFailed, Output
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.http.adapter import HttpAdapter
from tool_adapters.http.client import WORDS_OF_ERRORS_MAX, HttpReply
from tool_adapters.models import HttpConnection
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
from tool_adapters.used_secrets import (
    VALUES_MAX,
    SecretPattern,
    UsedSecrets,
    noting_secrets,
    used_secrets,
)
from tool_adapters.webhooks.delivery import UnusableSecret, signatures


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
    tool = tool_definition("api", HTTP, HttpConnection("GET", "https://api.example.com/"))
    call = tool_call("api")
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def using(*values: str) -> UsedSecrets:
    used = UsedSecrets()
    for value in values:
        used.add(value)
    return used


@pytest.mark.parametrize(
    "value",
    ['"population":', '": 5, "', "54985698", "true, ", "},{", "Nairobi", '"capital"', "\\u"],
)
def test_no_secret_breaks_json(value: str) -> None:
    document = (
        '{"capital": "Nairobi", "population":54985698, "ok": true, "rows": [{},{}, "\\u00e9"]}'
    )
    assert isinstance(json.loads(using(value).redact_json(document)), dict)
    assert isinstance(json.loads(using(value).redact(document)), dict)


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ('{"k": "a s3cr3t-value b"}', {"k": "a [secret] b"}),
        ('{"s3cr3t-value": 1}', {"[secret]": 1}),
        # Escaped, it is the same text to anyone who reads it.
        ('{"k": "\\u00733cr3t\\u002dvalue"}', {"k": "[secret]"}),
        ('["s3cr3t\\"quoted"]', ["[secret]"]),
        ("[12345678, 1.5, -2e3]", ["[secret]", 1.5, -2000.0]),
        ("[9912345678]", ["99[secret]"]),
    ],
)
def test_a_secret_is_blanked_in_strings_names_and_numbers(document: str, shown: Any) -> None:
    used = using("s3cr3t-value", 's3cr3t"quoted', "12345678")
    assert json.loads(used.redact_json(document)) == shown
    assert json.loads(used.redact(document)) == shown


def test_what_holds_no_secret_keeps_every_character() -> None:
    document = '{ "a" : [1.50, 1e400, "\\u00e9", 12345678901234567890] }\n'
    assert using("s3cr3t-value").redact(document) == document


@given(document=JSON, value=st.text(min_size=6), ascii_only=st.booleans())
def test_any_document_stays_json_without_any_value(
    document: Any, value: str, ascii_only: bool
) -> None:
    text = json.dumps({"k": [document, value]}, ensure_ascii=ascii_only)
    shown = json.loads(using(value).redact_json(text))
    # The mark itself may hold a value like "secret".
    assert value not in shown["k"][1].replace("[secret]", "")


async def test_calls_at_once_see_their_own_secrets_alone() -> None:
    async def call(value: str) -> str:
        with noting_secrets() as used:
            await asyncio.sleep(0)
            # Also what a task of the call uses.
            await asyncio.create_task(add(value))
            return used.redact("s3cr3t-of-a s3cr3t-of-b")

    async def add(value: str) -> None:
        used_secrets().add(value)

    shown = await asyncio.gather(call("s3cr3t-of-a"), call("s3cr3t-of-b"))
    assert list(shown) == ["[secret] s3cr3t-of-b", "s3cr3t-of-a [secret]"]


def test_half_a_character_beside_a_secret_is_replaced() -> None:
    shown = using("s3cr3t-value").redact(r'{"k": "s3cr3t-value \ud83d"}')
    assert shown.encode() == '{"k": "[secret] \ufffd"}'.encode()


HARD = 'p/q+r&s="t\\u\n v\u00fc\U0001f600w~'
SPELLINGS = {
    "plain": HARD,
    "json": json.dumps(HARD)[1:-1],
    "json, ASCII and slashes": json.dumps(HARD)[1:-1].replace("/", "\\/"),
    "json, every character": "".join(f"\\u{ord(each):04X}" for each in HARD if ord(each) < 65536),
    "json in json": json.dumps(json.dumps(HARD)[1:-1])[1:-1],
    "javascript": "".join(f"\\u{{{ord(each):x}}}" for each in HARD),
    "percent": quote(HARD, safe=""),
    "percent, lower case": "".join(f"%{byte:02x}" for byte in HARD.encode()),
    "percent twice": quote(quote(HARD)),
    "form": quote_plus(HARD),
    "html": html.escape(HARD),
    "html by number": "".join(f"&#{ord(each)};" for each in HARD),
    "html by hexadecimal number": "".join(f"&#x{ord(each):04X};" for each in HARD),
    "html by name": HARD.replace("&", "&amp;").replace("+", "&plus;").replace("/", "&sol;"),
    "html twice": html.escape(html.escape(HARD)),
    "csv or sql": HARD.replace('"', '""'),
    "octets of utf-8": "".join(f"\\x{byte:02x}" for byte in HARD.encode()),
    "octets of what is not ascii": repr(HARD.encode())[2:-1].replace("\\\\", "\\"),
    "hexadecimal": HARD.encode().hex(),
    "hexadecimal, upper case": HARD.encode().hex(" ").upper(),
    "hexadecimal with colons": HARD.encode().hex(":"),
}
FRAMES = [
    "%s",
    '{"k": 1}\n{"k": "%s"}\n',
    'event: x\ndata: {"k": "%s"}\n\n',
    "<a b='%s'>",
    "k=%s&l=1",
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_found_in_every_spelling(spelling: str, frame: str) -> None:
    secret = HARD.replace("\U0001f600", "") if "every" in spelling else HARD
    text = frame % SPELLINGS[spelling]
    shown = using(secret).redact(text)
    assert shown == frame % "[secret]"
    assert using(secret).redact_bytes(text.encode()) == shown.encode()


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:"])
def test_a_secret_is_found_in_base64(before: bytes, encode: Any) -> None:
    secret = "s3cr3t>>value??of>a~call"
    encoded = encode(before + secret.encode() + b"!").decode()
    for text in (encoded, encoded.replace("/", "\\/"), quote(encoded, safe="")):
        shown = using(secret).redact(f"Basic {text}")
        assert "[secret]" in shown
        assert len(shown) <= len("Basic [secret]") + len(before) + 8


@pytest.mark.parametrize("width", [64, 76])
@pytest.mark.parametrize("wrap", ["\n", "\r\n", "\\n", "\n  "])
def test_a_secret_is_found_in_wrapped_base64(width: int, wrap: str) -> None:
    secret = "".join(f"s3cr3t-{each}" for each in range(20))
    for before in range(80):
        encoded = base64.b64encode(bytes(before) + secret.encode() + bytes(60)).decode()
        lines = wrap.join(encoded[at : at + width] for at in range(0, len(encoded), width))
        shown = using(secret).redact(lines)
        assert "[secret]" in shown and len(shown) < len(lines) - len(secret)


def test_many_large_secrets_are_found_by_a_small_pattern() -> None:
    secrets = ["".join(f"{each:03d}{at:04d}-" for at in range(2_000)) for each in range(100)]
    found = SecretPattern(secrets)
    text = f"a {secrets[7]} b {secrets[99]}{secrets[3]} c {secrets[5][:-1]}!".encode()
    shown = found.sub(b"[secret]", text)
    assert shown.startswith(b"a [secret] b [secret] c ")
    assert len(shown) < 600
    assert sum(each.programsize for each in (found.spelled, found.heads) if each) < 120_000


def test_a_long_secret_is_found_whole() -> None:
    secret = "".join(f"{each:03d}-" for each in range(2_000)) + "/+"
    shown = using(secret).redact(f"a {secret} b {quote(secret, safe='')}")
    assert shown == "a [secret] b [secret]"


@pytest.mark.parametrize(
    "values",
    [["k" * 16_384], ['"' * 16_384], ["/+" * 8_192], [f"&key-{each:0200}" for each in range(100)]],
)
def test_the_pattern_of_large_secrets_stays_small(values: list[str]) -> None:
    """RE2 compiles while the whole process waits: for seconds, if all were spelled."""
    found = SecretPattern(values)
    assert sum(each.programsize for each in (found.spelled, found.heads) if each) < 120_000


def test_a_short_secret_is_found_in_every_spelling_beside_a_large_one() -> None:
    used = using('"' * 16_384, HARD)
    for spelling in ("javascript", "html by number", "percent twice"):
        assert used.redact(f"a {SPELLINGS[spelling]} b") == "a [secret] b"


def test_other_escaped_text_keeps_every_character() -> None:
    text = r'data: {"k": "a\/b \u00e9 %2B &amp; &#43; c2VjcmV0"}' + "\n"
    assert using(HARD, "s3cr3t-value").redact(text) == text


def test_a_session_keeps_its_latest_secrets() -> None:
    used = using(*(f"token-{each:06d}" for each in range(VALUES_MAX + 50)))
    call = using("s3cr3t-value")
    call.update(used)
    assert call.redact(f"token-{VALUES_MAX + 49:06d}") == "[secret]"
    assert call.redact("token-000000") == "token-000000"


SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"


def test_the_example_of_the_standards_own_libraries_has_its_signature() -> None:
    message_id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    found = signatures(SIGNING_SECRET, message_id, 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_secret_of_a_rotation_signs() -> None:
    both = signatures(f"{OTHER}\n{SIGNING_SECRET}\n", "m", 1, b"{}")
    assert both.split() == [signatures(each, "m", 1, b"{}") for each in (OTHER, SIGNING_SECRET)]


@pytest.mark.parametrize("value", ["", "plain", "whsec_", "whsec_!!!", "whsec_c2hvcnQ="])
def test_what_is_no_secret_is_rejected_without_its_value(value: str) -> None:
    with pytest.raises(UnusableSecret, match="openssl rand") as caught:
        signatures(value, "m", 1, b"{}")
    assert not value or value not in str(caught.value) or value == "whsec_"

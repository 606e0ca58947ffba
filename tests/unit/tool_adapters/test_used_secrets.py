import asyncio
import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_adapters.secret_spellings import SecretPattern
from tool_adapters.used_secrets import VALUES_MAX, UsedSecrets, noting_secrets, used_secrets

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

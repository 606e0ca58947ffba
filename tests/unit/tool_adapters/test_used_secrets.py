"""An answer is shown without the secrets of its own call, and what is JSON stays JSON."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_adapters.used_secrets import UsedSecrets, noting_secrets, used_secrets

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
        # Escaped, it is the same text to whoever reads it.
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

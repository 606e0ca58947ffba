import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.metering import Usage
from tool_adapters.adapter import ModelFunctionCall
from tool_adapters.guardrails.models import Guardrail, GuardrailAction, Reading
from tool_adapters.guardrails.patterns import (
    PatternCheck,
    deny_check,
    personal_data_check,
    secret_check,
)
from tool_adapters.guardrails.streams import shown_early
from tool_adapters.models import Stage

ALL_KINDS = personal_data_check(frozenset())
# In parts, or a scan of this repository would find them here.
CREDENTIALS = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a" * 36,
    "sk-ant-api03-" + "Zq1" * 12,
    "sk_live_" + "ReTllpYQYfIZu2Jnf2lAPFjD",
    "xoxb-" + "123456789012-abcdefghij",
    "eyJhbGciOi" + "JIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "glpat-" + "abcdefghij0123456789",
    "AIza" + "S" * 35,
    "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow==\n-----END RSA PRIVATE " + "KEY-----",
]
PERSONAL = [
    "ada@example.com",
    "DE89 3704 0044 0532 0130 00",
    "4111 1111 1111 1111",
    "378282246310005",
    "536-90-4399",
    "+44 20 7946 0958",
    "(415) 555-2671",
]
HARMLESS = [
    "2026-11-29T13:37:00Z",
    "1234 5678 9012 3456",
    "build 3.14.159, 64 of 128",
    "DE00 3704 0044 0532 0130 00",
    "an e-mail to nobody at example",
    "$1,234,567.89",
    "000-12-3456",
]


def found(check: PatternCheck, text: str) -> str:
    finding = check.find(Reading(Stage.OUTPUT, "", "", (text,), text))
    return text if finding is None or finding.texts is None else finding.texts[0]


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_credentials_of_known_providers_are_found_whole(credential: str) -> None:
    assert found(secret_check(), f"use {credential} now") == "use [redacted] now"


@pytest.mark.parametrize("text", PERSONAL)
def test_personal_data_is_found_whole(text: str) -> None:
    assert found(ALL_KINDS, f"it is {text}, thanks") == "it is [redacted], thanks"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_personal_data_is_left(text: str) -> None:
    assert found(ALL_KINDS, f"it is {text}, thanks") == f"it is {text}, thanks"


def test_the_reason_names_kinds_and_not_what_was_found() -> None:
    text = "ada@example.com, bob@example.com, 4111 1111 1111 1111"
    finding = ALL_KINDS.find(Reading(Stage.OUTPUT, "", "", (text,), text))
    assert finding is not None and finding.reason == "2 email, 1 card"


def test_denied_words_are_whole_words_in_any_case() -> None:
    check = deny_check(("blue bird", "ärger"), ())
    assert found(check, "BLUE  Bird, bluebird, Ärger, blue birds") == (
        "[redacted], bluebird, *****, blue birds"
    )


def test_what_is_redacted_is_never_longer() -> None:
    assert found(deny_check(("a",), ()), "a b a") == "* b *"


class Listener:
    def __init__(self) -> None:
        self.text = ""
        self.called_functions = 0

    def sent(self, usage: Usage, *, timed: bool) -> None: ...

    def wrote(self, text: str) -> None:
        self.text += text

    def called(self, index: int, part: ModelFunctionCall) -> None:
        self.called_functions += 1


def guardrail(check: Any, action: GuardrailAction = GuardrailAction.REDACT) -> Guardrail:
    return Guardrail("g", action, frozenset(Stage), check)


def streamed(text: str, sizes: random.Random, *guardrails: Guardrail) -> Listener:
    listener, at = Listener(), 0
    shown = shown_early(listener, guardrails)
    while at < len(text):
        size = sizes.randint(1, 40)
        shown.wrote(text[at : at + size])
        at += size
    return listener


WORDS = st.sampled_from(
    [*CREDENTIALS, *PERSONAL, *HARMLESS, "blue", "bird", "a", "ä", "4111", "1111", "+1", "x@", "\n"]
)


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", " ", " ", ", ", "-"]))), st.randoms())
def test_what_leaves_early_is_the_beginning_of_what_the_whole_answer_shows(
    pairs: list[tuple[str, str]], sizes: random.Random
) -> None:
    text = "so: " + "".join(word + space for word, space in pairs)
    checks = [secret_check(), ALL_KINDS, deny_check(("blue bird", "a"), ())]
    shown = streamed(text, sizes, *map(guardrail, checks)).text
    whole = text
    for check in checks:
        whole = found(check, whole)
    assert whole.startswith(shown)


def test_a_long_answer_leaves_early_except_for_its_end() -> None:
    text = "Ada writes to ada@example.com every day. " * 100
    shown = streamed(text, random.Random(1), guardrail(ALL_KINDS)).text
    assert "ada@" not in shown
    assert len(shown) > 100 * len("Ada writes to [redacted] every day. ") - 400


@pytest.mark.parametrize(
    ("check", "action"),
    [(ALL_KINDS, GuardrailAction.BLOCK), (deny_check((), ("a+",)), GuardrailAction.REDACT)],
)
def test_a_guardrail_that_needs_the_whole_answer_lets_no_part_leave(
    check: PatternCheck, action: GuardrailAction
) -> None:
    text = "nothing is found in this text, however long it is. " * 20
    assert not streamed(text, random.Random(1), guardrail(check, action)).text


def test_json_and_functions_leave_with_the_whole_answer() -> None:
    listener = Listener()
    shown = shown_early(listener, [guardrail(ALL_KINDS)])
    shown.wrote('{"mail": "' + "x" * 1000 + ' "}')
    shown.called(0, ModelFunctionCall("1", "send", "{}"))
    assert not listener.text and not listener.called_functions


def test_a_guardrail_that_flags_withholds_nothing() -> None:
    text = "mail ada@example.com"
    assert streamed(text, random.Random(1), guardrail(ALL_KINDS, GuardrailAction.FLAG)).text == text

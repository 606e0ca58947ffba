"""The reason of an error is its class in the words of AIP-193."""

import base64

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.rpc.errors import DomainError, InvalidArgument, NotFound
from podium_kit.rpc.pages import InvalidPageToken, decode_page_token, encode_page_token, page_size
from podium_kit.rpc.status import CODE_OF, ERROR_OF, code_of


class ToolNotFound(NotFound):
    """No such tool."""


class SHA256Mismatch(InvalidArgument):
    """A name with digits and an abbreviation."""


def test_reason_is_the_class_name_in_upper_snake_case() -> None:
    assert ToolNotFound("no tool weather").reason == "TOOL_NOT_FOUND"
    assert DomainError("why").reason == "DOMAIN_ERROR"


def test_metadata_is_text_and_leaves_out_what_is_not_known() -> None:
    error = ToolNotFound("no tool weather", name="weather", version=3, price=None)
    assert error.metadata == {"name": "weather", "version": "3"}


def test_metadata_may_have_any_key() -> None:
    assert DomainError("why", **{"message": "x", "self": "y"}).metadata == {
        "message": "x",
        "self": "y",
    }


def test_subclass_has_the_code_of_its_nearest_base() -> None:
    assert code_of(ToolNotFound("why")) is grpc.StatusCode.NOT_FOUND
    assert code_of(SHA256Mismatch("why")) is grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(DomainError("why")) is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("kind", DomainError.__subclasses__())
def test_every_class_of_error_has_a_code_of_its_own(kind: type[DomainError]) -> None:
    if kind.__module__ == "podium_kit.rpc.errors":
        assert ERROR_OF[CODE_OF[kind]] is kind


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.dictionaries(TEXTS, TEXTS))
def test_token_comes_back(values: dict[str, str]) -> None:
    token = encode_page_token(values)
    assert decode_page_token(token) == values
    assert "=" not in token


def test_no_token_is_the_first_page() -> None:
    assert decode_page_token("") == {}


@given(st.text(min_size=1) | st.binary(min_size=1).map(lambda raw: base64.b64encode(raw).decode()))
def test_any_text_is_a_token_or_rejected(text: str) -> None:
    try:
        values = decode_page_token(text)
    except InvalidPageToken:
        return
    assert decode_page_token(encode_page_token(values)) == values


@pytest.mark.parametrize(
    "text",
    ["!", "x", "é", encode_page_token({"after": "a"})[:-3]]
    + [encode_page_token({"after": text}) for text in ("\0", "\ud800")]
    + [
        base64.urlsafe_b64encode(raw).decode()
        for raw in (b"[]", b"1", b"null", b"{", b"\xff", b"[" * 100_000)
    ],
)
def test_token_of_no_list_is_rejected(text: str) -> None:
    with pytest.raises(InvalidPageToken, match="page_token"):
        decode_page_token(text)


@given(st.integers(0, 10**6))
def test_page_size_is_the_asked_one_within_the_maximum(requested: int) -> None:
    assert page_size(requested, 50, 500) == (min(requested, 500) if requested else 50)


def test_negative_page_size_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match="page_size is -1; give 1 to 500, or 0 for 50"):
        page_size(-1, 50, 500)

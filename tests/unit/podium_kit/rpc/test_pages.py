"""Page tokens come back as they went; anything else is rejected by name."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.rpc.errors import InvalidArgument
from podium_kit.rpc.pages import InvalidPageToken, decode_page_token, encode_page_token, page_size

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

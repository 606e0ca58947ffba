import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.chat.call_ids import CallId


@given(st.uuids(version=4), st.integers(0, 65535), st.integers(0, 65535))
def test_an_id_is_read_as_it_was_written(episode: object, turn: int, index: int) -> None:
    call = CallId(str(episode), turn, index)
    assert CallId.read(str(call)) == call
    # OpenAI's own API takes ids of at most 40 characters.
    assert len(str(call)) <= 40


@given(st.text())
def test_any_other_text_is_none_of_ours(text: str) -> None:
    assert CallId.read(text) is None


@pytest.mark.parametrize("encoded", ["", "!" * 27, "é" * 27, "A" * 28])
def test_what_only_looks_like_one_is_none(encoded: str) -> None:
    assert CallId.read(f"call_{encoded}") is None

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from episodes.spending.worst_case import tokens_max
from podium_kit.attachments import Attachment
from podium_kit.embedded.smollm2 import SmolLM2

TEXTS = st.one_of(
    st.text(max_size=2000),
    st.text("0123456789", max_size=2000),
    st.text(st.characters(categories=["Co", "So", "Lo"]), max_size=500),
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(SmolLM2().directory / "tokenizer.json"))


@given(text=TEXTS)
def test_no_text_has_more_tokens_than_are_held(tokenizer: Tokenizer, text: str) -> None:
    assert len(tokenizer.encode(text).ids) <= tokens_max(len(text.encode()))


@given(size=st.integers(1, 20_000_000))
def test_a_pdf_is_held_at_what_was_measured_and_not_by_its_bytes(size: int) -> None:
    """A few kilobytes may be a thousand pages that share a stream (attack 35)."""
    file = Attachment("[file 1]", "application/pdf", "0" * 64, size)
    assert file.estimated_tokens == 200_000
    assert replace(file, tokens=6_000).estimated_tokens == 6_000
    assert replace(file, tokens=1_500_000).estimated_tokens == 1_500_000
    # No model reads more.
    assert replace(file, tokens=10**9).estimated_tokens == 2_000_000

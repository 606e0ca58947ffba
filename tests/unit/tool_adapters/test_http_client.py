import pytest

from tool_adapters.http.client import RETRY_AFTER_MAX_S, HttpReply, retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("1.5", 1.5),
        ("-3", 0.0),
        ("1e999", RETRY_AFTER_MAX_S),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Mon, 01 Jan 99999999999999 00:00:00 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_wait_is_read_or_ignored(said: str, seconds: float | None) -> None:
    assert retry_after_s(HttpReply(429, {"retry-after": said}, b"")) == seconds

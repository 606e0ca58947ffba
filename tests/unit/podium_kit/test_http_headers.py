"""Headers that belong to the platform are known however they are spelled."""

import pytest

from podium_kit.http_headers import header_problem


@pytest.mark.parametrize(
    "name", ["transfer-encoding", "TRANSFER_ENCODING", "Content-Length", "hOST", "proxy-anything"]
)
def test_a_header_of_the_connection_is_left_to_the_platform(name: str) -> None:
    assert "belongs to the connection" in header_problem(name)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\n", "é", "a/b", "(x)", "x\0"])
def test_what_is_no_token_is_no_name(name: str) -> None:
    assert "is no name of a header" in header_problem(name)


@pytest.mark.parametrize("value", ["", 'a, b; c="d"', "tab\tbed", "naïve", "日本"])
def test_other_headers_with_values_of_one_line_may_be_sent(value: str) -> None:
    assert header_problem("X-Api.Version_2", value) == ""

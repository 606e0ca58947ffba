"""The reason of an error is its class in the words of AIP-193."""

import grpc
import pytest

from podium_kit.rpc.errors import DomainError, InvalidArgument, NotFound
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

"""Errors of OpenAPI documents."""

from podium_kit.rpc.errors import InvalidArgument


class InvalidOpenApi(InvalidArgument):
    """The document, or one operation of it, cannot be read."""


class Unsupported(Exception):
    """An operation that is valid and that no tool of kind http can call; says why."""

"""Errors of requests to follow a server."""

from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument, NotFound


class InvalidFollowing(InvalidArgument):
    """The request does not say what to follow."""


class TooManyFollowed(FailedPrecondition):
    """An owner has as many as it may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} MCP servers are followed already; unfollow one of them first")


class FollowedServerNotFound(NotFound):
    """The caller follows no server under this id."""

    def __init__(self, server_id: str) -> None:
        super().__init__(f"no MCP server is followed under the id {server_id}", id=server_id)

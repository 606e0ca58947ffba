from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument, NotFound


class InvalidFollowing(InvalidArgument):
    pass


class TooManyFollowed(FailedPrecondition):
    def __init__(self, most: int) -> None:
        super().__init__(f"{most} MCP servers are followed already; unfollow one of them first")


class FollowedServerNotFound(NotFound):
    def __init__(self, server_id: str) -> None:
        super().__init__(f"no MCP server is followed under the id {server_id}", id=server_id)

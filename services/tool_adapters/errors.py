"""Errors of requests; a tool that fails is an answer instead."""

from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument


class InvalidCall(InvalidArgument):
    """The request names no call."""


class CallConflict(FailedPrecondition):
    """The key belongs to another call of an effectful tool."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"call {key} was made before with other content; a key names one call", key=key
        )


class KindUnsupported(FailedPrecondition):
    """No adapter speaks to tools of this kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the adapters do not serve tools of kind {kind} yet", kind=kind)


class McpServerUnusable(FailedPrecondition):
    """The operator defined no such MCP server, or defined it wrongly."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"MCP server {server!r}: {problem}", server=server)


class DiscoveryFailed(FailedPrecondition):
    """An MCP server did not give its tools: the server that was named, and no part of ours."""

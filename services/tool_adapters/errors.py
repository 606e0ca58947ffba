from podium_kit.rpc.errors import FailedPrecondition, InvalidArgument, ResourceExhausted


class InvalidCall(InvalidArgument):
    pass


class CallConflict(FailedPrecondition):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"call {key} was made before with other content; a key names one call", key=key
        )


class KindUnsupported(FailedPrecondition):
    def __init__(self, kind: str) -> None:
        super().__init__(f"the adapters do not serve tools of kind {kind} yet", kind=kind)


class McpServerUnusable(FailedPrecondition):
    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"MCP server {server!r}: {problem}", server=server)


class DiscoveryFailed(FailedPrecondition):
    pass


class BudgetExhausted(ResourceExhausted):
    def __init__(self, tool: str, message: str) -> None:
        super().__init__(f"{tool} is not paid for: {message}")

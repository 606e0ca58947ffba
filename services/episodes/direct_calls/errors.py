"""What can be wrong with a call of a tool without an episode."""

from podium_kit.rpc.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)

RETRY_AFTER_S = 1


class InvalidDirectCall(InvalidArgument):
    """The request cannot become a call."""


class DirectCallNotFound(NotFound):
    """No such call, for this tenant."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"there is no direct call {call_id}", call_id=call_id)


class DirectCallConflict(AlreadyExists):
    """The id is taken by a call with another spec."""

    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"direct call {call_id} was started with another spec; use a new id", call_id=call_id
        )


class ToolDenied(PermissionDenied):
    """The tenant's policy does not allow the call."""

    def __init__(self, tool: str, why: str) -> None:
        super().__init__(f"{tool} is not allowed: {why}", tool=tool)


class ApprovalRequired(PermissionDenied):
    """The policy wants a person to approve the call, and nobody is asked about one like this."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"calls of {tool} wait for a person's approval, and only an episode waits: name the"
            " tool in podium.tools of a request to an orchestrator",
            tool=tool,
        )


class TooManyDirectCalls(ResourceExhausted):
    """The tenant has as many calls in flight as it may."""

    def __init__(self, running_limit: int) -> None:
        super().__init__(
            f"your tenant may have {running_limit} direct calls in flight and does; wait until one"
            " ends, or ask the platform's admin for more (`podium limits set`)",
            running_limit=running_limit,
            retry_after_s=RETRY_AFTER_S,
        )

"""What can be wrong with tools and policies."""

from rpckit.errors import AlreadyExists, InvalidArgument, NotFound


class InvalidTool(InvalidArgument):
    """The spec cannot become a tool."""


class InvalidSchema(InvalidArgument):
    """A JSON Schema that cannot be used; the path says where."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"schema at {path or '/'}: {problem}", path=path or "/")


class ToolNotFound(NotFound):
    """No such tool, for this tenant."""

    def __init__(self, name: str, version: int = 0) -> None:
        what = f"tool {name} has no version {version}" if version else f"there is no tool {name}"
        super().__init__(what, tool=name)


class ToolRefused(InvalidArgument):
    """A tool was asked for that the policy does not allow."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"tool {name} is not allowed: {reason}", tool=name)


class NameTaken(AlreadyExists):
    """The name belongs to a shared tool."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is a tool of the platform; give yours another name", tool=name)


class InvalidPolicy(InvalidArgument):
    """The spec cannot become a policy."""


class PolicyNotFound(NotFound):
    """No such policy, for this tenant."""

    def __init__(self, name: str, version: int = 0) -> None:
        what = f"policy {name} has no version {version}" if version else f"no policy {name}"
        super().__init__(what, policy=name)

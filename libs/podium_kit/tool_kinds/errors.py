from podium_kit.rpc.errors import InvalidArgument


class InvalidTool(InvalidArgument):
    """The spec cannot become a tool."""

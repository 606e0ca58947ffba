from podium_kit.rpc.errors import InvalidArgument


class InvalidOpenApi(InvalidArgument):
    pass


class Unsupported(Exception):
    """An operation that is valid and that no tool of kind http can call."""

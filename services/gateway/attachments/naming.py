from collections.abc import Iterator
from contextlib import contextmanager

from gateway.models import EpisodeOrder
from podium_kit.rpc.errors import DomainError


@contextmanager
def file_named(order: EpisodeOrder) -> Iterator[None]:
    """Says of an error about one of the order's files in which parameter it is."""
    try:
        yield
    except DomainError as error:
        index = error.metadata.get("attachment")
        if index is not None:
            error.metadata["param"] = order.files[int(index)].param
        raise

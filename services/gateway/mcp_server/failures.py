import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mcp import types
from mcp.shared.exceptions import MCPError

from gateway.errors import UpstreamFault
from podium_kit.rpc.errors import DomainError, message_of

log = logging.getLogger(__name__)


@contextmanager
def in_its_words() -> Iterator[None]:
    """The library answers with the text of what it does not know, be it a database's statement."""
    try:
        yield
    except MCPError:
        raise
    except DomainError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from error
    except Exception as error:
        log.exception("an MCP client's request failed: %s", message_of(error))
        raise MCPError(types.INTERNAL_ERROR, UpstreamFault().message) from error

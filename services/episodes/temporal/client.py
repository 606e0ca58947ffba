"""Connecting to Temporal."""

import logging
from typing import Any

import tenacity
from temporalio.client import Client
from temporalio.service import TLSConfig

from episodes.temporal.converter import data_converter
from episodes.temporal.settings import TemporalSettings
from podium_kit.rpc.errors import Unavailable

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
ATTEMPTS_MAX = 60


class TemporalUnreachable(Unavailable):
    """Temporal's frontend does not answer."""

    def __init__(self, target: str, cause: Exception) -> None:
        super().__init__(f"Temporal at {target} does not answer: {cause}; {_fix(str(cause))}")


def _fix(cause: str) -> str:
    """How to fix it, from the text of the client's error: it has no types for them."""
    if "InvalidCertificate" in cause:
        return "its certificate is not accepted: correct TEMPORAL__AUTHORITY or _SERVER_NAME"
    if "error after connection" in cause:
        return (
            "it took the connection and ended it: correct TEMPORAL__TLS, TEMPORAL__CERTIFICATE "
            "and TEMPORAL__PRIVATE_KEY"
        )
    return "start it, or correct TEMPORAL_TARGET"


async def connect_temporal(
    target: str,
    namespace: str,
    settings: TemporalSettings | None = None,
    attempts_max: int = ATTEMPTS_MAX,
) -> Client:
    """A client, once the frontend answers.

    Raises TemporalUnreachable, by default in a minute, and FailedPrecondition for a file of
    payload keys without any.
    """
    settings = settings or TemporalSettings()
    security = connection_security(settings)
    converter = data_converter(settings.payload_keys_file)
    patient = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(RuntimeError),
        stop=tenacity.stop_after_attempt(attempts_max),
        wait=tenacity.wait_fixed(RETRY_INTERVAL_S),
        before_sleep=lambda _: log.info("Temporal at %s does not answer yet", target),
        reraise=True,
    )
    try:
        return await patient(
            Client.connect, target, namespace=namespace, data_converter=converter, **security
        )
    except RuntimeError as error:
        raise TemporalUnreachable(target, error) from error


async def check_temporal(client: Client) -> None:
    """Raises when the frontend does not answer that it serves."""
    if not await client.service_client.check_health():
        raise Unavailable("Temporal's frontend does not serve")


def connection_security(settings: TemporalSettings) -> dict[str, Any]:
    """Arguments of `Client.connect`. Reads the files. Raises OSError when one cannot be read."""
    if not settings.tls:
        # Named, because the client turns TLS on by itself where there is a key.
        return {"tls": False}
    files = {
        "server_root_ca_cert": settings.authority,
        "client_cert": settings.certificate,
        "client_private_key": settings.private_key,
    }
    pem: dict[str, Any] = {
        name: path.read_bytes() for name, path in files.items() if path is not None
    }
    key = settings.api_key
    return {
        "tls": TLSConfig(domain=settings.server_name, **pem),
        "api_key": key.get_secret_value() if key else None,
    }

"""Rejections by the brokers, in words that name the fix.

The client says "unable to bootstrap" whatever the cause. So after a failure over TLS one handshake
is made by hand, with the same files, and what it says is the message.
"""

import socket
import ssl
from typing import TypeGuard
from urllib.parse import urlsplit

from podium_kit.rpc.errors import Unavailable
from podium_kit.stream.settings import KafkaSettings

TIMEOUT_S = 2.0
# As the client has it where none is given.
PORT = 9092


class BrokerUnavailable(Unavailable):
    """No broker answers; what is not published yet stays in the outbox."""

    def __init__(self, kafka: KafkaSettings, error: Exception) -> None:
        refused = f"{error.strerror}. Fix bootstrap, or start them." if _is_refused(error) else ""
        cause = refused or tls_rejection(kafka) or type(error).__name__
        super().__init__(f"the brokers at {kafka.bootstrap} do not answer: {cause}")


def require_reachable(kafka: KafkaSettings) -> None:
    """Raises BrokerUnavailable when no bootstrap server accepts a connection.

    The client itself would try for half a minute without a word.
    """
    errors: list[OSError] = []
    for server in kafka.bootstrap.split(","):
        place = urlsplit(f"//{server.strip()}")
        try:
            socket.create_connection((place.hostname or "", place.port or PORT), TIMEOUT_S).close()
        except OSError as error:
            errors.append(error)
        else:
            return
    raise BrokerUnavailable(kafka, errors[0]) from errors[0]


def _is_refused(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, ConnectionRefusedError | socket.gaierror)


def tls_rejection(kafka: KafkaSettings) -> str:
    """Returns why TLS with the first bootstrap server fails; empty if TLS is not the cause."""
    if kafka.security_protocol == "PLAINTEXT":
        return ""
    server = urlsplit(f"//{kafka.bootstrap.split(',')[0].strip()}")
    try:
        accepted = _handshake(_context(kafka), server.hostname or "", server.port or PORT)
    except ssl.SSLCertVerificationError as error:
        cause = error.verify_message.rstrip(".")
        return f"their certificate is not accepted: {cause}. Fix authority or host."
    except ssl.SSLError as error:
        return f"TLS fails with {error.reason}. Fix certificate and private_key, or the protocol."
    except OSError as error:
        return f"{error.strerror or 'no connection'}. Fix bootstrap, or start them."
    if accepted:
        return ""
    held = f"the certificate {kafka.certificate}" if kafka.certificate else "a client without one"
    return f"after the handshake they leave: they do not accept {held}. Fix certificate."


def _context(kafka: KafkaSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=kafka.authority and str(kafka.authority))
    if kafka.certificate:
        context.load_cert_chain(kafka.certificate, kafka.private_key)
    return context


def _handshake(context: ssl.SSLContext, host: str, port: int) -> bool:
    with (
        socket.create_connection((host, port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        # In TLS 1.3 a server looks at our certificate after our side is done (RFC 8446, 4.4.2);
        # some then send an alert, others just go. One that accepts it waits for a request.
        secured.settimeout(TIMEOUT_S / 4)
        try:
            return secured.recv(1) != b""
        except TimeoutError:
            return True
        except (ConnectionError, ssl.SSLError):
            return False

"""Mutual TLS whose certificates are renewed while the process runs.

cert-manager writes a new certificate into the Secret long before the old one ends, and the kubelet
swaps the mounted files. Nothing restarts: a server looks at its files before every handshake,
a client before every call (rpc/renewing_channel.py). Open connections keep what they began with.
"""

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from podium_kit.rpc.errors import FailedPrecondition
from podium_kit.rpc.settings import TlsFiles

log = logging.getLogger(__name__)

# Modification time, inode and size: a swapped file differs in one of them.
Stamp = tuple[tuple[int, int, int], ...]


class TlsUnusable(FailedPrecondition):
    def __init__(self, files: TlsFiles, cause: str) -> None:
        super().__init__(
            f"mutual TLS is set, but {files.certificate}, {files.private_key} and "
            f"{files.authority} are not usable: {cause}"
        )


@dataclass(frozen=True)
class KeyMaterial:
    """A certificate with its key, and the authority both sides are checked against; all PEM."""

    certificate: bytes
    private_key: bytes
    authority: bytes

    def server_configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = (self.private_key, self.certificate)
        return grpc.ssl_server_certificate_configuration([pair], self.authority)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority, self.private_key, self.certificate)


class RenewedFiles:
    """The present content of a certificate's files. Safe to use from gRPC's threads."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        try:
            self._seen = _stamp(files)
            self.first = _read(files)
        except (OSError, ValueError) as error:
            raise TlsUnusable(files, str(error)) from error

    def renewed(self) -> KeyMaterial | None:
        """New material if the files changed since they were last asked for, else None.

        Files that cannot be used are a renewal half written: what is in use stays in use.
        """
        with self._lock:
            try:
                stamp = _stamp(self._files)
                if stamp == self._seen:
                    return None
                self._seen = stamp
                material = _read(self._files)
            except (OSError, ValueError) as error:
                log.warning("renewed certificate is not usable, the old one stays: %s", error)
                return None
        log.info("certificate %s was renewed", self._files.certificate)
        return material


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Mutual TLS that every handshake asks for the newest certificate. Raises TlsUnusable."""
    renewals = RenewedFiles(files)

    def newest() -> grpc.ServerCertificateConfiguration | None:
        material = renewals.renewed()
        return material.server_configuration() if material else None

    first = renewals.first.server_configuration()
    # The stubs forget that None means "no change".
    return grpc.dynamic_ssl_server_credentials(first, newest, require_client_authentication=True)  # type: ignore[arg-type]


def http_server_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS of an HTTP server with the newest certificate at every handshake. Raises TlsUnusable.

    Clients are verified by their keys and tokens: those outside of the platform have no
    certificate.
    """
    renewals = RenewedFiles(files)
    newest = first = _context(files)

    def renew(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: object) -> None:
        nonlocal newest
        if renewals.renewed():
            try:
                newest = _context(files)
            except OSError as error:
                log.warning("renewed certificate is not usable, the old one stays: %s", error)
        connection.context = newest

    # Called without a server name, too.
    first.sni_callback = renew
    return first


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.private_key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _stamp(files: TlsFiles) -> Stamp:
    return tuple(
        _stamp_of(path) for path in (files.certificate, files.private_key, files.authority)
    )


def _stamp_of(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, status.st_size


def _read(files: TlsFiles) -> KeyMaterial:
    """Raises OSError, or ValueError when they are not PEM or do not belong together."""
    material = KeyMaterial(
        files.certificate.read_bytes(), files.private_key.read_bytes(), files.authority.read_bytes()
    )
    own = x509.load_pem_x509_certificates(material.certificate)[0]
    if load_pem_private_key(material.private_key, None).public_key() != own.public_key():
        raise ValueError("the private key is not that of the certificate")
    x509.load_pem_x509_certificates(material.authority)
    return material

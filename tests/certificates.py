"""Certificates for tests, issued by authorities that live as long as the test."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podium_kit.rpc.settings import TlsFiles

HERE = ("127.0.0.1", "localhost")
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def certificate(self) -> x509.Certificate:
        usage = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self.name, self.name, self.key, timedelta(days=1))
        return builder.add_extension(usage, critical=True).sign(self.key, hashes.SHA256())

    def issue(
        self,
        holder: str,
        names: tuple[str, ...] = HERE,
        lasting: timedelta = timedelta(hours=1),
    ) -> TlsFiles:
        """Files of a holder: addresses, DNS names, SPIFFE ids. Issuing again renews them."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = _builder(holder, self.name, key, lasting)
        own = builder.add_extension(alternative, critical=False).sign(self.key, hashes.SHA256())
        private = key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return TlsFiles(
            certificate=self._write(f"{holder}.crt", own.public_bytes(PEM)),
            private_key=self._write(f"{holder}.key", private),
            authority=self._write(f"{holder}.ca", self.certificate.public_bytes(PEM)),
        )

    def _write(self, name: str, content: bytes) -> Path:
        """Swaps the file as the kubelet does, so that no reader sees half of it."""
        path = self.folder / f"{self.name}-{name}"
        fresh = path.with_suffix(f"{path.suffix}.new")
        fresh.write_bytes(content)
        return fresh.replace(path)


def _general_name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    if name.replace(".", "").isdigit():
        return x509.IPAddress(ip_address(name))
    return x509.DNSName(name)


def _builder(
    holder: str, issuer: str, key: ec.EllipticCurvePrivateKey, lasting: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(holder))
        .issuer_name(_common_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=2))
        .not_valid_after(datetime.now(UTC) + lasting)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

"""Certificate authorities of tests: real X.509, for servers on this machine."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rpckit.settings import TlsFiles


@dataclass(frozen=True)
class Authority:
    """A certificate authority that issues certificates for this machine."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, name: str) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        return cls(folder, name, key, builder.sign(key, hashes.SHA256()))

    def issue(self, holder: str, lasting: timedelta = timedelta(hours=1)) -> TlsFiles:
        """Files of a holder at 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, holder)])
        builder = _builder(subject, self.certificate.subject, key, lasting).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        own = builder.sign(self.key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        private = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return TlsFiles(
            certificate=self._write(f"{holder}.crt", own.public_bytes(pem)),
            private_key=self._write(f"{holder}.key", private),
            authority=self._write(f"{holder}.ca", self.certificate.public_bytes(pem)),
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / f"{self.name}-{name}"
        path.write_bytes(content)
        return path


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    lasting: timedelta = timedelta(hours=1),
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - timedelta(hours=2)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(datetime.now(UTC) + lasting)
    )

"""A certificate authority of an installation's own, and what it issues; all PEM."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LASTING = timedelta(days=3650)
# Clocks of nodes differ.
EARLIER = timedelta(hours=1)
PEM = serialization.Encoding.PEM
SIGNS_HANDSHAKES = ("digital_signature",)
SIGNS_CERTIFICATES = ("key_cert_sign", "crl_sign")
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True)
class Issued:
    certificate: str
    private_key: str


@dataclass(frozen=True)
class Authority:
    """Signs certificates for both ends of a connection."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str) -> "Authority":
        """Makes an authority that is valid for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = _builder(subject, subject, key.public_key(), datetime.now(UTC) + LASTING)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(SIGNS_CERTIFICATES), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, issued: Issued) -> "Authority":
        certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
        key = serialization.load_pem_private_key(issued.private_key.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is on no elliptic curve")
        if key.public_key() != certificate.public_key():
            raise ValueError("the key is not that of the certificate")
        return cls(certificate, key)

    def written(self) -> Issued:
        return Issued(_text(self.certificate), _text(self.key))

    def issue(
        self, holder: str, names: Sequence[x509.GeneralName], lasting: timedelta = LASTING
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(datetime.now(UTC) + lasting, self.certificate.not_valid_after_utc)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = _builder(_named(holder), self.certificate.subject, key.public_key(), until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(SIGNS_HANDSHAKES), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(signer, critical=False)
        return Issued(_text(builder.sign(self.key, hashes.SHA256())), _text(key))

    def names(self, certificate: x509.Certificate) -> bool:
        """Returns whether the certificate says that this authority issued it."""
        return certificate.issuer == self.certificate.subject

    def signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def _builder(
    holder: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(holder)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs: Sequence[str]) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in signs for name in USAGES})


def _named(name: str) -> x509.Name:
    # The longest that X.509 allows; who is meant is in the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _text(of: x509.Certificate | ec.EllipticCurvePrivateKey) -> str:
    if isinstance(of, x509.Certificate):
        return of.public_bytes(PEM).decode()
    form = serialization.PrivateFormat.PKCS8
    return of.private_bytes(PEM, form, serialization.NoEncryption()).decode()

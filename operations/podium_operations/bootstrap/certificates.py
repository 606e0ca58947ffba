"""Certificates of mutual TLS between the pods, in a Secret each, where no operator makes them."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from podium_kit.client.errors import UsageError
from podium_kit.crypto.certificate_authority import Authority, Issued
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Certificates, Holder
from podium_operations.local.keys import MASTER_KEYS, PAYLOAD_KEYS, ensure_keys

log = logging.getLogger(__name__)

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
TLS_SECRET = "kubernetes.io/tls"  # noqa: S105  a type
# Renewing it by itself would part those who know the new one from those who do not, so a person
# has this long to do it: docs/runbooks/certificate-expiring.md.
AUTHORITY_WARNING = timedelta(days=365)


class AuthorityUnusable(UsageError):
    """The Secret of the authority holds something else."""


async def ensure_certificates(objects: ClusterObjects, wanted: Certificates) -> list[str]:
    """Makes those that are missing, end soon, or are of other names; what it made, in words.

    A certificate of someone else's authority stays as it is. Raises AuthorityUnusable.
    """
    authority, made = await _authority(objects, wanted.authority_secret)
    for holder in wanted.holders:
        stored = await objects.secret(holder.secret)
        if stored is None:
            why = "Secret %s with a certificate"
        elif not _is_due(stored, holder, authority, wanted):
            continue
        else:
            why = "new certificate in Secret %s"
        issued = authority.issue(holder.secret, holder.names, wanted.lasting)
        values = {**_values(issued), AUTHORITY: authority.written().certificate}
        await objects.write_secret(holder.secret, values, TLS_SECRET)
        made.append(why % holder.secret)
    return made


async def _authority(objects: ClusterObjects, secret: str) -> tuple[Authority, list[str]]:
    stored = await objects.secret(secret)
    if stored is None:
        authority = Authority.new(secret)
        values = _values(authority.written())
        await objects.write_secret(secret, {**values, AUTHORITY: values[CERTIFICATE]}, TLS_SECRET)
        return authority, [f"Secret {secret} with an authority of certificates"]
    try:
        authority = Authority.read(Issued(stored[CERTIFICATE], stored[KEY]))
    except (KeyError, ValueError) as error:
        raise AuthorityUnusable(
            f"Secret {secret} holds no authority: {error}",
            f"delete it (`kubectl delete secret {secret}`) and run the Job again",
        ) from error
    until = authority.certificate.not_valid_after_utc
    if until < datetime.now(UTC) + AUTHORITY_WARNING:
        log.warning("the authority in Secret %s ends %s: see the runbook", secret, until.date())
    return authority, []


def _is_due(
    stored: dict[str, str], holder: Holder, authority: Authority, wanted: Certificates
) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(stored.get(CERTIFICATE, "").encode())
    except ValueError:
        return True
    if not authority.names(certificate):
        log.info("Secret %s holds a certificate of another authority and stays", holder.secret)
        return False
    return (
        not authority.signed(certificate)
        or stored.get(AUTHORITY) != authority.written().certificate
        or certificate.not_valid_after_utc < datetime.now(UTC) + wanted.renewed_before
        or _names(certificate) != {*holder.dns_names, holder.uri}
    )


def _names(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = found.get_values_for_type(x509.UniformResourceIdentifier)
    return {*found.get_values_for_type(x509.DNSName), *uris}


def _values(issued: Issued) -> dict[str, str]:
    return {CERTIFICATE: issued.certificate, KEY: issued.private_key}


async def ensure_signing_keys(objects: ClusterObjects, secret: str) -> list[str]:
    """Makes the Secret that `podium identity` would. One that exists stays as it is, but for the
    files of keys that one of an earlier release lacks.
    """
    stored, values = await objects.secret(secret), _new_keys()
    if stored is None:
        await objects.write_secret(secret, values)
        return [f"Secret {secret} with {len(values)} files of keys"]
    missing = [name for name in (MASTER_KEYS, PAYLOAD_KEYS) if name not in stored]
    if missing:
        await objects.write_secret(secret, {name: values[name] for name in missing})
    return [f"key {name} of Secret {secret}" for name in missing]


def _new_keys() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        ensure_keys(Path(folder))
        return {path.name: path.read_text() for path in Path(folder).iterdir()}

"""Certificates and signing keys of the pods without an operator: made once, renewed in time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from callers import make_identity
from certificates import Authority as AnotherAuthority
from chart.rendering import Json
from integration.bootstrap.conftest import planned
from integration.bootstrap.namespace_server import NamespaceServer
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.settings import TlsFiles
from podium_operations.bootstrap.certificates import (
    AuthorityUnusable,
    ensure_certificates,
    ensure_signing_keys,
)
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Certificates, Holder

AUTHORITY = "podium-authority"
CALLER, CALLEE = "podium-gateway-tls", "podium-episodes-tls"


def wanted(**fields: object) -> Certificates:
    holders = [
        Holder(secret=name, dns_names=["localhost"], uri=f"spiffe://test/{name}")
        for name in (CALLER, CALLEE)
    ]
    given = {"lasting_s": 30 * 86400, "renewed_before_s": 10 * 86400, "holders": holders}
    return Certificates(authority_secret=AUTHORITY, **(given | fields))


def certificate(namespace: NamespaceServer, secret: str = CALLER) -> x509.Certificate:
    return x509.load_pem_x509_certificate(namespace.secret(secret)["tls.crt"].encode())


def serials(namespace: NamespaceServer) -> list[int]:
    names = (AUTHORITY, CALLER, CALLEE)
    return [certificate(namespace, name).serial_number for name in names]


def mounted(folder: Path, values: Mapping[str, str]) -> TlsFiles:
    folder.mkdir()
    for name, value in values.items():
        (folder / name).write_text(value)
    certificate_file, key, authority = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
    return TlsFiles(certificate=certificate_file, private_key=key, authority=authority)


async def test_certificates_are_made_once_as_secrets_of_their_type(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    assert await ensure_certificates(objects, wanted()) == [
        f"Secret {AUTHORITY} with an authority of certificates",
        f"Secret {CALLER} with a certificate",
        f"Secret {CALLEE} with a certificate",
    ]
    for name in (AUTHORITY, CALLER, CALLEE):
        assert namespace.objects["secrets", name]["type"] == "kubernetes.io/tls"
        assert namespace.secret(name).keys() == {"tls.crt", "tls.key", "ca.crt"}
    made = dict(namespace.objects)
    assert await ensure_certificates(objects, wanted()) == []
    assert namespace.objects == made


async def test_pods_call_each_other_with_them_and_are_known_by_name(
    namespace: NamespaceServer, objects: ClusterObjects, tmp_path: Path
) -> None:
    await ensure_certificates(objects, wanted())
    server = PoliciesUnderTest(tmp_path)
    files = [mounted(tmp_path / name, namespace.secret(name)) for name in (CALLER, CALLEE)]

    async def reply(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        return policy_named("reached")

    allowed = frozenset({f"spiffe://test/{CALLER}"})
    async with server.serving(reply, tls=files[1], allowed_clients=allowed):
        target, signer = f"localhost:{server.port}", server.keys.signer()
        async with open_channel(target, signer, make_identity(), files[0]) as channel:
            answer = await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest(), timeout=10)
            assert answer.policy.spec.name == "reached"
        async with open_channel(target, signer, make_identity(), files[1]) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="may not call this service"):
                await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest(), timeout=10)


async def test_what_ends_soon_is_renewed_and_the_authority_stays(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    await ensure_certificates(objects, wanted(lasting_s=9 * 86400))
    before = serials(namespace)
    assert await ensure_certificates(objects, wanted()) == [
        f"new certificate in Secret {CALLER}",
        f"new certificate in Secret {CALLEE}",
    ]
    after = serials(namespace)
    assert (after[0] == before[0], set(after[1:]) & set(before[1:])) == (True, set())
    assert certificate(namespace).not_valid_after_utc > datetime.now(UTC) + timedelta(days=29)


async def test_other_names_are_another_certificate(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    await ensure_certificates(objects, wanted())
    moved = Holder(secret=CALLER, dns_names=["localhost"], uri="spiffe://elsewhere/gateway")
    made = await ensure_certificates(objects, wanted(holders=[moved]))
    assert made == [f"new certificate in Secret {CALLER}"]
    names = certificate(namespace).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    assert uris == ["spiffe://elsewhere/gateway"]


async def test_an_authority_that_was_deleted_is_replaced_with_all_that_it_signed(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    await ensure_certificates(objects, wanted())
    del namespace.objects["secrets", AUTHORITY]
    assert len(await ensure_certificates(objects, wanted())) == 3
    for name in (CALLER, CALLEE):
        assert namespace.secret(name)["ca.crt"] == namespace.secret(AUTHORITY)["tls.crt"]
        certificate(namespace, name).verify_directly_issued_by(certificate(namespace, AUTHORITY))


async def test_a_certificate_of_somebody_else_stays(
    namespace: NamespaceServer, objects: ClusterObjects, tmp_path: Path
) -> None:
    files = AnotherAuthority(tmp_path, "theirs").issue("gateway", lasting=timedelta(hours=1))
    assert files.authority
    theirs = {
        "tls.crt": files.certificate.read_text(),
        "tls.key": files.private_key.read_text(),
        "ca.crt": files.authority.read_text(),
    }
    namespace.put_secret(CALLER, theirs)
    made = await ensure_certificates(objects, wanted())
    assert not any(CALLER in each for each in made)
    assert namespace.secret(CALLER) == theirs


async def test_an_authority_that_is_none_is_named_with_the_fix(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    namespace.put_secret(AUTHORITY, {"tls.crt": "?", "tls.key": "?"})
    with pytest.raises(AuthorityUnusable) as error:
        await ensure_certificates(objects, wanted())
    assert f"kubectl delete secret {AUTHORITY}" in error.value.fix


def test_the_chart_asks_for_one_of_each_component() -> None:
    asked = planned({"tls": {"duration": "1h30m", "renewBefore": "45m10s"}}).certificates
    assert asked
    assert (asked.lasting_s, asked.renewed_before_s) == (5400, 2710)
    names = {holder.secret: holder.dns_names for holder in asked.holders}
    assert "podium-gateway.podium.svc.cluster.local" in names["podium-gateway-tls"]
    assert len(names) == 7


@pytest.mark.parametrize(
    "values",
    [
        {"tls": {"enabled": False}},
        {"bootstrap": {"certificates": {"enabled": False}}},
        {"integrations": {"certManager": {"enabled": True}}},
    ],
    ids=["plaintext", "own secrets", "cert-manager"],
)
def test_the_chart_asks_for_none_where_nobody_needs_them(values: Json) -> None:
    assert planned(values).certificates is None


async def test_a_secret_is_made_once_and_only_missing_files_of_keys_are_added(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    assert await ensure_signing_keys(objects, "podium-identity")
    made = namespace.secret("podium-identity")
    assert not await ensure_signing_keys(objects, "podium-identity")
    assert namespace.secret("podium-identity") == made

    added = {"master-keys", "payload-keys"}
    earlier = {name: value for name, value in made.items() if name not in added}
    namespace.put_secret("earlier", earlier)
    assert await ensure_signing_keys(objects, "earlier") == [
        "key master-keys of Secret earlier",
        "key payload-keys of Secret earlier",
    ]
    found = namespace.secret("earlier")
    assert found.keys() == made.keys()
    assert {name: found[name] for name in earlier} == earlier

    namespace.put_secret("before-payloads", earlier | {"master-keys": made["master-keys"]})
    assert await ensure_signing_keys(objects, "before-payloads") == [
        "key payload-keys of Secret before-payloads"
    ]
    assert namespace.secret("before-payloads")["master-keys"] == made["master-keys"]

import asyncio
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509

from certificates import Authority
from embedded_servers import Database
from integration.gateway.gateway_under_test import Gateway, run_gateway
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.client.gateway import Gateway as GatewayClient
from podium_kit.client.gateway import InvalidAuthority, Unreachable
from podium_kit.rpc.settings import TlsFiles


async def shown_by(gateway: Gateway, files: TlsFiles) -> int:
    context = ssl.create_default_context(cafile=files.authority)
    port = urlsplit(gateway.base_url).port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number


def serial(files: TlsFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


async def episodes_of(gateway: Gateway, authority: Path | None) -> int:
    async with GatewayClient(gateway.base_url, gateway.key, authority) as client:
        return len((await client.get("/v1/episodes", pb.ListEpisodesResponse)).episodes)


async def test_keys_cross_the_network_by_tls_alone_and_clients_verify_the_gateway(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Authority(tmp_path, "ours").issue("gateway")
    others = Authority(tmp_path, "theirs").issue("gateway")
    async with run_gateway(await database("gateway"), tmp_path, tls=files) as gateway:
        assert await episodes_of(gateway, files.authority) == 0
        for authority in (None, others.authority):
            with pytest.raises(Unreachable):
                await episodes_of(gateway, authority)
        with pytest.raises(InvalidAuthority, match="not-there holds no certificate"):
            await episodes_of(gateway, tmp_path / "not-there")
        # As with a forwarded port.
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        assert await episodes_of(gateway, None) == 0
        plain = gateway.base_url.replace("https://", "http://")
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.TransportError):
                await client.get(f"{plain}/healthz")


async def test_a_renewed_certificate_is_presented_without_a_restart(
    database: Database, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ours")
    files = authority.issue("gateway")
    async with run_gateway(await database("gateway"), tmp_path, tls=files) as gateway:
        before = serial(files)
        assert await shown_by(gateway, files) == before
        authority.issue("gateway")
        assert await shown_by(gateway, files) == serial(files) != before
        # What is written half is no renewal.
        after = serial(files)
        files.private_key.write_text("?")
        assert await shown_by(gateway, files) == after

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

KEY = bytes(range(32))
BODY = '{"type": "episode.ended", "data": {"é": 1}}'


@pytest_asyncio.fixture
async def trusting(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    secrets = tmp_path / "secrets"
    (secrets / "acme").mkdir(parents=True)
    (secrets / "acme" / "hooks").write_text(f"whsec_{base64.b64encode(KEY).decode()}")
    (secrets / "acme" / "word").write_text("a-plain-word")
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"),
            tmp_path,
            registry,
            secrets_folder=secrets,
            allowed_hosts=frozenset({"127.0.0.1"}),
        ) as running,
    ):
        yield running


def event(url: str, secret: str = "hooks", **fields: str) -> pb.DeliverWebhookRequest:
    values = {"message_id": "episode-ended-1", "body_json": BODY, **fields}
    return pb.DeliverWebhookRequest(url=url, secret=tool_pb2.SecretRef(name=secret), **values)


async def test_an_event_arrives_as_it_is_with_a_signature_that_verifies(
    trusting: AdaptersUnderTest, web: WebServer
) -> None:
    reply = await trusting.stub.DeliverWebhook(event(f"{web.url}/echo/hook"))
    assert (reply.status_code, reply.HasField("failure")) == (200, False)
    (seen,) = web.seen
    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert headers["webhook-id"] == "episode-ended-1"
    assert headers["content-type"] == "application/json"
    assert json.loads(seen["body"]) == json.loads(BODY)
    signed = f"episode-ended-1.{headers['webhook-timestamp']}.{BODY}".encode()
    digest = hmac.digest(KEY, signed, hashlib.sha256)
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


async def test_what_the_receiver_answers_is_told(
    trusting: AdaptersUnderTest, web: WebServer
) -> None:
    reply = await trusting.stub.DeliverWebhook(event(f"{web.url}/nothing-is-here"))
    assert (reply.status_code, reply.HasField("failure")) == (404, False)


async def test_no_private_address_is_reached(adapters: AdaptersUnderTest, web: WebServer) -> None:
    # The tenant has no secret here; its address is looked at all the same.
    for url in (f"{web.url}/echo/hook", "http://169.254.169.254/", "ftp://example.org/"):
        reply = await adapters.stub.DeliverWebhook(event(url))
        assert reply.HasField("failure")
    assert not web.seen


async def test_secrets_are_the_tenants_own_and_of_the_right_form(
    trusting: AdaptersUnderTest, web: WebServer
) -> None:
    async with trusting.as_caller("rival") as rival:
        foreign = await rival.DeliverWebhook(event(f"{web.url}/echo/hook"))
    assert "secret hooks is not in" in foreign.failure.message
    plain = await trusting.stub.DeliverWebhook(event(f"{web.url}/echo/hook", "word"))
    assert plain.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "openssl rand" in plain.failure.message
    assert "a-plain-word" not in plain.failure.message
    assert not web.seen


async def test_what_cannot_be_signed_is_rejected(
    trusting: AdaptersUnderTest, web: WebServer
) -> None:
    for wrong in (
        event(web.url, message_id="a.b"),
        event(web.url, message_id=""),
        event(web.url, body_json="x" * 70_000),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await trusting.stub.DeliverWebhook(wrong)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

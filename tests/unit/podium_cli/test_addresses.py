import pytest

from podium.registry.v1 import tool_pb2
from podium_cli.tools.mcp_import import rejected_hosts


def http(url: str) -> tool_pb2.ToolSpec:
    connection = tool_pb2.HttpConnection(method="GET", url_template=url)
    return tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=connection))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8099/{city}", "127.0.0.1"),
        ("http://localhost/", "localhost"),
        ("https://10.1.2.3/", "10.1.2.3"),
        ("http://[::1]:80/", "::1"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("http://rates.shop.svc.cluster.local/", "rates.shop.svc.cluster.local"),
        ("http://rates/", "rates"),
    ],
)
def test_a_private_host_is_named(url: str, host: str) -> None:
    assert rejected_hosts(http(url)) == [host]
    assert rejected_hosts(http(url), allowed=[host]) == []


def test_a_host_that_is_allowed_to_one_tenant_is_named_to_others() -> None:
    private, allowed = http("http://erp.internal/"), ["acme/ERP.internal", "zeta/10.0.0.1"]
    assert rejected_hosts(private, allowed, "acme") == []
    assert rejected_hosts(private, allowed, "zeta") == ["erp.internal"]
    assert rejected_hosts(private, allowed) == ["erp.internal"]


@pytest.mark.parametrize(
    "url", ["https://api.example.com/v1", "http://1.1.1.1/", "http://[bad/", ""]
)
def test_what_may_be_public_is_not(url: str) -> None:
    assert rejected_hosts(http(url)) == []


def test_every_kind_that_connects_is_looked_at() -> None:
    model = tool_pb2.LlmModel(base_url="http://127.0.0.1:8000/v1")
    mcp = tool_pb2.McpHttp(url="http://127.0.0.1/mcp")
    kinds = [
        tool_pb2.Connection(mcp=tool_pb2.McpConnection(http=mcp)),
        tool_pb2.Connection(llm=tool_pb2.LlmConnection(models=[model, model])),
        tool_pb2.Connection(grpc=tool_pb2.GrpcConnection(target="dns:///127.0.0.1:443")),
    ]
    for connection in kinds:
        assert rejected_hosts(tool_pb2.ToolSpec(connection=connection)) == ["127.0.0.1"]

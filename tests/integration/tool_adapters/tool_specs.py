import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from integration.misbehaviour.grpc_server import METHOD, descriptor_set
from podium.registry.v1 import tool_pb2 as pb

ANY_OBJECT = {"type": "object"}


def tool_limits(
    timeout_s: float = 10.0, concurrency: int = 0, output_bytes: int = 0, attempts: int = 1
) -> pb.ToolLimits:
    timeout = Duration()
    timeout.FromMilliseconds(int(timeout_s * 1000))
    return pb.ToolLimits(
        timeout=timeout,
        max_concurrency=concurrency,
        max_output_bytes=output_bytes,
        max_attempts=attempts,
    )


def tool_spec(name: str, kind: str, parameters: dict[str, Any], **fields: Any) -> pb.ToolSpec:
    given: dict[str, Any] = {
        "side_effect": pb.SIDE_EFFECT_PURE,
        "limits": tool_limits(),
        "sku": f"{name}-sku",
    }
    return pb.ToolSpec(
        name=name,
        kind=pb.ToolKind.Value(f"TOOL_KIND_{kind}"),
        description=name,
        parameters_json_schema=json.dumps(parameters),
        **(given | fields),
    )


def calculator_spec() -> pb.ToolSpec:
    parameters = {
        "type": "object",
        "properties": {"expression": {"type": "string", "maxLength": 500}},
        "required": ["expression"],
        "additionalProperties": False,
    }
    connection = pb.Connection(function=pb.FunctionConnection(function="calculator"))
    return tool_spec("calculator", "FUNCTION", parameters, connection=connection)


def http_spec(url: str, method: str = "GET", **fields: Any) -> pb.ToolSpec:
    http = pb.HttpConnection(url_template=url, method=method, **fields.pop("http", {}))
    parameters = fields.pop("parameters", ANY_OBJECT)
    return tool_spec("api", "HTTP", parameters, connection=pb.Connection(http=http), **fields)


def llm_spec(base_url: str, api: str = "OPENAI_CHAT", **fields: Any) -> pb.ToolSpec:
    secret = pb.SecretRef(name=fields.pop("secret", ""))
    models = [
        pb.LlmModel(
            alias=alias,
            model=f"{alias}-model",
            base_url=base_url,
            api=pb.LlmApi.Value(f"LLM_API_{api}"),
            sku=f"{alias}-sku",
            secret=secret,
        )
        for alias in ("small", "large")
    ]
    parameters = {"type": "object", "properties": {"model": {"enum": ["small", "large"]}}}
    llm = pb.LlmConnection(models=models, **fields.pop("llm", {}))
    return tool_spec("expert", "LLM", parameters, connection=pb.Connection(llm=llm), **fields)


def define_server(folder: Path, name: str, *args: str, **fields: Any) -> str:
    folder.mkdir(exist_ok=True)
    definition = {"argv": [sys.executable, *args], **fields}
    (folder / f"{name}.yaml").write_text(json.dumps(definition))
    return name


def mcp_spec(tool_name: str, server: str, **fields: Any) -> pb.ToolSpec:
    stdio = pb.McpStdio(server=server)
    connection = pb.Connection(mcp=pb.McpConnection(tool_name=tool_name, stdio=stdio))
    return tool_spec(tool_name, "MCP", ANY_OBJECT, connection=connection, **fields)


def mcp_http_spec(tool_name: str, url: str, **fields: Any) -> pb.ToolSpec:
    http = pb.McpHttp(url=url)
    connection = pb.Connection(mcp=pb.McpConnection(tool_name=tool_name, http=http))
    return tool_spec(tool_name, "MCP", ANY_OBJECT, connection=connection, **fields)


def connecting_specs(address: str) -> dict[str, pb.ToolSpec]:
    """A tool of every kind that connects, at that host and port."""
    grpc = pb.GrpcConnection(
        target=address, method=METHOD, descriptor_set=descriptor_set(), plaintext=True
    )
    return {
        "http": http_spec(f"http://{address}/echo/x"),
        "mcp": mcp_http_spec("double", f"http://{address}/mcp"),
        "llm": llm_spec(f"http://{address}/v1"),
        "grpc": tool_spec("grpc", "GRPC", ANY_OBJECT, connection=pb.Connection(grpc=grpc)),
    }

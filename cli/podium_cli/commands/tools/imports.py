"""`podium tools apply`, `import-mcp` and `import-openapi`: many tools at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.commands.tools.tools import DryRun, Shared, app
from podium_cli.documents.addresses import rejected_hosts
from podium_cli.documents.applying import ApplyTools
from podium_cli.documents.documents import InvalidDocument, read_each
from podium_cli.documents.mcp_import import discover, vanished
from podium_cli.documents.openapi_import import read_openapi
from podium_cli.unmatched import warn_of_missing_secrets, warn_of_unpriced_tools
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway

McpServer = Annotated[
    str, typer.Argument(help="URL, or the name of a server that the operator defined.")
]
Prefix = Annotated[str, typer.Option(help="Put before every name, like airline_.")]
Sku = Annotated[str, typer.Option(help="SKU in the price book for all of them.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag for all; repeatable.")]
SkipWrong = Annotated[
    bool, typer.Option("--skip-wrong", help="Register the good ones although others are wrong.")
]


@command(app, "apply")
async def apply(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="File or folder of YAML or JSON.")],
    *,
    dry_run: DryRun = False,
    skip_wrong: SkipWrong = False,
    shared: Shared = False,
) -> None:
    """Register tools from files; what is registered already stays as it is.

    All are checked first, and every problem is reported. With --dry-run the
    differences are shown and nothing is stored.
    """
    documents = list(read_each(file, tool_pb2.ToolSpec))
    wrong = [each.cause for _, each in documents if isinstance(each, InvalidDocument)]
    good = [(path, each) for path, each in documents if isinstance(each, tool_pb2.ToolSpec)]
    async with session.gateway(admin=shared) as gateway:
        tools = ApplyTools(
            gateway, session.output, shared=shared, dry_run=dry_run, skip_wrong=skip_wrong
        )
        await tools.run([spec for _, spec in good], wrong, files=[path for path, _ in good])
        await _warn(session, gateway, [spec for _, spec in good], shared)


@command(app, "import-mcp")
async def import_mcp(
    session: Session,
    server: McpServer,
    *,
    prefix: Prefix = "",
    sku: Sku = "",
    tag: Tags = None,
    dry_run: DryRun = False,
    skip_wrong: SkipWrong = False,
    shared: Shared = False,
) -> None:
    """Register every tool of a Model Context Protocol server.

    podium tools import-mcp --prefix board_ tau2-mock

    Again, it registers new versions of what changed and deprecates what the server no
    longer has.
    """
    async with session.gateway(admin=shared) as gateway:
        specs = await discover(gateway, server, prefix)
        _complete(specs, sku, tag)
        gone = await vanished(gateway, specs, shared)
        tools = ApplyTools(
            gateway, session.output, shared=shared, dry_run=dry_run, skip_wrong=skip_wrong
        )
        await tools.run(specs, gone=gone)


@command(app, "import-openapi")
async def import_openapi(
    session: Session,
    document: Annotated[str, typer.Argument(help="File or URL of an OpenAPI 3 document.")],
    *,
    base_url: Annotated[str, typer.Option(help="Server, when not the document's first.")] = "",
    secret: Annotated[str, typer.Option(help="Name of the secret the API wants.")] = "",
    username: Annotated[str, typer.Option(help="User whose password the secret is.")] = "",
    client_id: Annotated[str, typer.Option(help="OAuth 2.0 client whose secret it is.")] = "",
    operation: Annotated[
        list[str] | None, typer.Option(help="Only this operationId; repeatable.")
    ] = None,
    operation_tag: Annotated[
        list[str] | None, typer.Option(help="Only with this OpenAPI tag; repeatable.")
    ] = None,
    prefix: Prefix = "",
    sku: Sku = "",
    tag: Tags = None,
    dry_run: DryRun = False,
    shared: Shared = False,
) -> None:
    """Register the operations of an HTTP API; what cannot be called is named with its cause.

    podium tools import-openapi petstore.yaml --secret petstore --prefix pets_
    """
    request = tool_registry_service_pb2.ReadOpenApiRequest(
        base_url=base_url,
        name_prefix=prefix,
        operation_ids=operation or [],
        operation_tags=operation_tag or [],
        username=username,
        client_id=client_id,
    )
    if secret:
        request.secret.name = secret
    async with session.gateway(admin=shared) as gateway:
        read = await read_openapi(gateway, document, request)
        left_out = [f"{skipped.operation}: {skipped.reason}" for skipped in read.skipped]
        if not read.specs:
            raise UsageError(
                "\n".join([f"{read.title} has no operation that can become a tool", *left_out])
            )
        specs = list(read.specs)
        _complete(specs, sku, tag)
        tools = ApplyTools(gateway, session.output, shared=shared, dry_run=dry_run, skip_wrong=True)
        await tools.run(specs, left_out=left_out)
        await _warn(session, gateway, specs, shared)


async def _warn(
    session: Session, gateway: Gateway, specs: Sequence[tool_pb2.ToolSpec], shared: bool
) -> None:
    """Warns of what every call would run into."""
    await warn_of_unpriced_tools(gateway, session.output, specs)
    if not shared:
        await warn_of_missing_secrets(gateway, session.output, specs)
        await _warn_of_addresses(session, gateway, specs)


async def _warn_of_addresses(
    session: Session, gateway: Gateway, specs: Sequence[tool_pb2.ToolSpec]
) -> None:
    """One warning for each host that no call will reach."""
    allowed, tenant = session.target.allowed_hosts, ""
    if any("/" in entry for entry in allowed):
        tenant = (await gateway.call("GET", "/v1/limits"))["tenant"]
    tools: dict[str, list[str]] = {}
    for spec in specs:
        for host in rejected_hosts(spec, allowed, tenant):
            tools.setdefault(host, []).append(spec.name)
    for host, names in tools.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        session.output.warn(
            f"{names[0]}{more} will not reach {host}, which is not public; the operator may allow"
            f" it: podium up --allow-host {host}"
        )


def _complete(specs: list[tool_pb2.ToolSpec], sku: str, tags: list[str] | None) -> None:
    for spec in specs:
        spec.sku = sku
        spec.tags.extend(tag for tag in tags or [] if tag not in spec.tags)

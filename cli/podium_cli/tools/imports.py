from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.tools.applying import ApplyTools
from podium_cli.tools.mcp_import import connection_of, discover, rejected_hosts, vanished
from podium_cli.tools.openapi_import import read_openapi
from podium_cli.tools.tools import DryRun, Shared, app
from podium_cli.unmatched import secrets_of, warn_of_missing_secrets, warn_of_unpriced_tools
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_operations.documents import InvalidDocument, read_each

McpServer = Annotated[
    str, typer.Argument(help="URL, or the name of a server that the operator defined.")
]
Prefix = Annotated[str, typer.Option(help="Put before every name, like airline_.")]
Sku = Annotated[str, typer.Option(help="SKU in the price book for all of them.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag for all; repeatable.")]
SecretHeaders = Annotated[
    list[str] | None,
    typer.Option(
        "--secret-header",
        help="Header with the name of a secret, like 'X-API-Key: my-key'; repeatable.",
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", help="Constant header, like 'X-Region: eu'; repeatable."),
]
SkipWrong = Annotated[
    bool, typer.Option("--skip-wrong", help="Register the good ones although others are wrong.")
]


class LeftOut(UserError):
    """Some tools of a server are not registered; they were named before."""

    def __init__(self, count: int, listed: int) -> None:
        super().__init__(
            f"{count} of {listed} tools are left out",
            "the others are usable; --skip-wrong makes that a success",
        )


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
    secret_header: SecretHeaders = None,
    header: Headers = None,
    sku: Sku = "",
    tag: Tags = None,
    dry_run: DryRun = False,
    skip_wrong: Annotated[
        bool, typer.Option("--skip-wrong", help="Succeed although some tools are left out.")
    ] = False,
    shared: Shared = False,
) -> None:
    """Register every tool of a Model Context Protocol server.

    podium tools import-mcp --prefix board_ tau2-mock

    A tool that cannot be called is left out and named, and the exit status is 1. Again, it
    registers new versions of what changed and deprecates what the server no longer has.
    """
    connection = connection_of(server, secret_header or (), header or ())
    async with session.gateway(admin=shared) as gateway:
        found = await discover(gateway, connection, prefix)
        specs = list(found.specs)
        left_out = [f"{skipped.name}: {skipped.reason}" for skipped in found.skipped]
        if not specs:
            raise UsageError("\n".join([f"{server} has no tool that can be called", *left_out]))
        for notice in found.notices:
            session.output.note(f"[yellow]warning:[/] {escape(notice)}")
        _complete(specs, sku, tag)
        gone = await vanished(gateway, found, prefix, shared)
        tools = ApplyTools(gateway, session.output, shared=shared, dry_run=dry_run, skip_wrong=True)
        without = await tools.run(specs, gone=gone, left_out=left_out)
    if without and not skip_wrong:
        raise LeftOut(len(without), len(specs) + len(left_out))


@command(app, "import-openapi")
async def import_openapi(
    session: Session,
    document: Annotated[str, typer.Argument(help="File or URL of an OpenAPI 3 document.")],
    *,
    base_url: Annotated[str, typer.Option(help="Server, when not the document's first.")] = "",
    secret: Annotated[
        list[str] | None,
        typer.Option(help="Secret the API wants, or SCHEME=SECRET for one of several; repeatable."),
    ] = None,
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
    for written in secret or ():
        scheme, named, name = written.rpartition("=")
        chosen = request.scheme_secrets[scheme] if named else request.secret
        chosen.name = name
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
    await warn_of_unpriced_tools(gateway, session.output, specs)
    if not shared:
        await warn_of_missing_secrets(gateway, session.output, secrets_of(specs))
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

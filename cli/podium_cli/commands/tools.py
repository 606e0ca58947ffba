"""`podium tools`: list, show, apply from files, import from an MCP server."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.applying import ApplyTools
from podium_cli.command import Session, command
from podium_cli.documents import read_messages
from podium_cli.errors import UsageError
from podium_cli.formats import enum_word, format_seconds, one_line
from podium_cli.gateway import segment
from podium_cli.listing import listing
from podium_cli.mcp_import import discover
from podium_cli.price_text import format_price
from wire import duration_from_proto

DESCRIPTION_CHARACTERS = 200

app = typer.Typer(
    name="tools",
    help="List, show, apply, import.",
    no_args_is_help=True,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; store nothing.")]
Shared = Annotated[bool, typer.Option("--shared", help="For every tenant; needs an admin key.")]


@command(app, "list")
async def list_tools(
    session: Session,
    query: Annotated[str, typer.Option(help="Only tools with all of these words.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; repeatable.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; repeatable.")] = None,
    all_versions: Annotated[
        bool, typer.Option("--deprecated", help="Deprecated tools as well.")
    ] = False,
) -> None:
    """List the tools you can use, with their measured latency and your price."""
    async with session.gateway() as gateway:
        found = await gateway.all(
            "/v1/tools",
            tool_registry_service_pb2.ListToolsResponse,
            query=query,
            tags=tag,
            kinds=[_kind(word) for word in kind or []],
            include_deprecated="true" if all_versions else "",
        )
        facts = await gateway.all("/v1/tool-facts", tool_registry_service_pb2.ListToolFactsResponse)
        skus = sorted({tool.spec.sku for tool in found.tools} - {""})
        prices = await gateway.get(
            "/v1/prices/effective", price_book_service_pb2.GetEffectivePricesResponse, skus=skus
        )
    measured = {fact.tool_name: fact for fact in facts.facts if not fact.model_alias}
    columns = ("tool", "kind", "version#", "median#", "price", "description…")
    rows = [_row(tool, measured.get(tool.spec.name), prices.prices) for tool in found.tools]
    session.output.result(found, listing(columns, rows))


@command(app, "show")
async def show(
    session: Session,
    name: Annotated[str, typer.Argument(help="Tool name.", show_default=False)],
    version: Annotated[int, typer.Option(min=0, help="Version; 0 means the newest.")] = 0,
) -> None:
    """Show a tool: description, schema, connection, limits."""
    async with session.gateway() as gateway:
        reply = await gateway.get(
            f"/v1/tools/{segment(name)}",
            tool_registry_service_pb2.GetToolResponse,
            version=version or None,
        )
    session.output.result(reply, _described(reply.tool))


@command(app, "apply")
async def apply(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="File or folder of YAML or JSON.")],
    dry_run: DryRun = False,
    shared: Shared = False,
) -> None:
    """Register tools from files; what is registered already stays as it is.

    With --dry-run the differences are shown and nothing is stored.
    """
    specs = [spec for _, spec in read_messages(file, tool_pb2.ToolSpec)]
    async with session.gateway(admin=shared) as gateway:
        await ApplyTools(gateway, session.output, shared, dry_run).run(specs)


@command(app, "import-mcp")
async def import_mcp(
    session: Session,
    server: Annotated[
        list[str], typer.Argument(help="URL, or a command and its arguments after --.")
    ],
    *,
    prefix: Annotated[str, typer.Option(help="Put before every name, like airline_.")] = "",
    sku: Annotated[str, typer.Option(help="SKU in the price book for all of them.")] = "",
    dry_run: DryRun = False,
    shared: Shared = False,
) -> None:
    """Register every tool of a Model Context Protocol server.

    podium tools import-mcp --prefix board_ -- tau2-mock-mcp-eval
    """
    async with session.gateway(admin=shared) as gateway:
        specs = await discover(gateway, server, prefix)
        for spec in specs:
            spec.sku = sku
        await ApplyTools(gateway, session.output, shared, dry_run).run(specs)


def _kind(word: str) -> str:
    name = f"TOOL_KIND_{word.upper()}"
    kinds = [each for each, number in tool_pb2.ToolKind.items() if number]
    if name not in kinds:
        known = [enum_word(each, "TOOL_KIND_") for each in kinds]
        raise UsageError(f"there is no tool kind {word!r}", f"use one of {', '.join(known)}")
    return name


def _row(
    tool: tool_pb2.Tool,
    facts: tool_pb2.ToolFacts | None,
    prices: Mapping[str, price_book_service_pb2.Price],
) -> tuple[str, ...]:
    by_model = tool.spec.kind == tool_pb2.TOOL_KIND_LLM
    sku = tool.spec.sku
    return (
        tool.spec.name,
        enum_word(tool_pb2.ToolKind.Name(tool.spec.kind), "TOOL_KIND_"),
        str(tool.version),
        format_seconds(duration_from_proto(facts.latency_p50)) if facts else "",
        format_price(prices[sku].spec) if sku in prices else "by model" if by_model else "unknown",
        one_line(tool.spec.description, DESCRIPTION_CHARACTERS),
    )


def _described(tool: tool_pb2.Tool) -> RenderableType:
    spec = tool.spec
    kind = enum_word(tool_pb2.ToolKind.Name(spec.kind), "TOOL_KIND_")
    effect = enum_word(tool_pb2.SideEffect.Name(spec.side_effect), "SIDE_EFFECT_")
    price = spec.sku or "of unknown price"
    schema = json.dumps(json.loads(spec.parameters_json_schema), indent=2)
    return Group(
        Text.assemble((spec.name, "bold"), f"  {kind} v{tool.version}, {effect}, {price}"),
        Text(spec.description.strip()),
        Text(f"tags: {', '.join(spec.tags)}", style="dim"),
        Syntax(schema, "json", background_color="default"),
    )

import json
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.completion import tool_names
from podium_cli.formats import format_seconds
from podium_cli.inputs import parse_enum
from podium_cli.listing import listing
from podium_cli.prices.lists import format_price
from podium_kit.client.gateway import segment
from podium_kit.text import one_line
from podium_kit.tool_kinds import KINDS, kind_of
from podium_kit.wire import duration_from_proto, enum_word

DESCRIPTION_CHARACTERS = 200
KIND_HELP = f"Only this kind: {', '.join(KINDS)}; repeatable."

app = typer.Typer(
    name="tools",
    help="List, show, search, try, test, apply, import, follow, describe, delete.",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Argument(help="Tool name.", show_default=False, autocompletion=tool_names)
]
Every = Annotated[int, typer.Option("--version", min=0, help="Version; 0 means every version.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; store nothing.")]
Shared = Annotated[bool, typer.Option("--shared", help="For every tenant; needs an admin key.")]


@command(app, "list")
async def list_tools(
    session: Session,
    query: Annotated[str, typer.Option(help="Only tools with all of these words.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; repeatable.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help=KIND_HELP)] = None,
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
            kinds=[parse_enum(word, tool_pb2.ToolKind.DESCRIPTOR, "--kind") for word in kind or []],
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
    session.output.result(found, listing(columns, rows, ("version#", "median#", "kind")))


@command(app, "show")
async def show(
    session: Session,
    name: Name,
    version: Annotated[int, typer.Option(min=0, help="Version; 0 means the newest.")] = 0,
    shared: Annotated[
        bool, typer.Option("--shared", help="With the connection that platform admins alone see.")
    ] = False,
) -> None:
    """Show a tool: description, schema, connection, limits."""
    async with session.gateway(admin=shared) as gateway:
        reply = await gateway.get(
            f"/v1/tools/{segment(name)}",
            tool_registry_service_pb2.GetToolResponse,
            version=version or None,
        )
    session.output.result(reply, _described(reply.tool))


@command(app, "search")
async def search(
    session: Session,
    query: Annotated[str, typer.Argument(help="What you need, in words.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most tools.")] = 10,
) -> None:
    """Find the tools that fit best: by words, and by meaning where configured."""
    async with session.gateway() as gateway:
        found = await gateway.get(
            "/v1/tool-search",
            tool_registry_service_pb2.SearchToolsResponse,
            query=query,
            page_size=limit,
        )
    rows = [
        (each.tool.spec.name, one_line(each.tool.spec.description, DESCRIPTION_CHARACTERS))
        for each in found.results
    ]
    session.output.result(found, listing(("tool", "description…"), rows))


@command(app, "deprecate")
async def deprecate(
    session: Session, name: Name, *, version: Every = 0, shared: Shared = False
) -> None:
    """Take a tool out of new episodes; running ones keep it. Applying it again revives it."""
    async with session.gateway(admin=shared) as gateway:
        reply = await gateway.post(
            f"/v1/tools/{segment(name)}/deprecate",
            {"version": version},
            tool_registry_service_pb2.DeprecateToolResponse,
        )
    session.output.result(reply, _versions(reply.tools, "deprecated"))


@command(app, "delete")
async def delete(
    session: Session, name: Name, *, version: Every = 0, shared: Shared = False
) -> None:
    """Delete a tool; what past episodes used stays readable by version for a while."""
    async with session.gateway(admin=shared) as gateway:
        reply = await gateway.delete(
            f"/v1/tools/{segment(name)}",
            tool_registry_service_pb2.DeleteToolResponse,
            version=version or None,
        )
    session.output.result(reply, _versions(reply.tools, "deleted"))


def _versions(tools: Iterable[tool_pb2.Tool], done: str) -> str:
    return "\n".join(f"{tool.spec.name} v{tool.version} {done}" for tool in tools)


def _row(
    tool: tool_pb2.Tool,
    facts: tool_pb2.ToolFacts | None,
    prices: Mapping[str, price_book_service_pb2.Price],
) -> tuple[str, ...]:
    by_model = kind_of(tool.spec.kind).has_models
    sku = tool.spec.sku
    return (
        tool.spec.name,
        enum_word(tool_pb2.ToolKind.Name(tool.spec.kind), "TOOL_KIND_"),
        str(tool.version),
        format_seconds(duration_from_proto(facts.latency_p50)) if facts else "",
        format_price(prices[sku].spec) if sku in prices else "by model" if by_model else "unknown",
        one_line(tool.spec.description, DESCRIPTION_CHARACTERS),
    )


def _accepted(known: tool_pb2.LlmCapabilities) -> str:
    """Returns for example `openai; max_completion_tokens; sampling rejected; efforts low, high`."""
    efforts = [
        f"{effort} (default)" if effort == known.default_effort else effort
        for effort in known.efforts
    ]
    parts = [
        known.family or "unknown family",
        known.output_cap,
        f"sampling {known.sampling.replace('_', ' ')}",
        "" if known.stream_options else "no stream_options",
        f"efforts {', '.join(efforts)}" if efforts else "no reasoning effort",
    ]
    return "; ".join(filter(None, parts))


def _described(tool: tool_pb2.Tool) -> RenderableType:
    spec = tool.spec
    kind = enum_word(tool_pb2.ToolKind.Name(spec.kind), "TOOL_KIND_")
    effect = enum_word(tool_pb2.SideEffect.Name(spec.side_effect), "SIDE_EFFECT_")
    price = spec.sku or "of unknown price"
    schema = json.dumps(json.loads(spec.parameters_json_schema), indent=2)
    return Group(
        Text.assemble((spec.name, "bold"), f"  {kind} v{tool.version}, {effect}, {price}"),
        Text(spec.description.strip()),
        *([Text(f"tags: {', '.join(spec.tags)}", style="dim")] if spec.tags else []),
        *(
            Text(f"{alias}: {_accepted(known)}")
            for alias, known in sorted(tool.model_capabilities.items())
        ),
        Syntax(schema, "json", background_color="default"),
        *(Text(notice, style="yellow") for notice in spec.notices),
    )

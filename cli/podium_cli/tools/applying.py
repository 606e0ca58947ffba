import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.syntax import Syntax
from rich.text import Text

from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.formats import counted
from podium_cli.output import Output
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.wire import json_values
from podium_kit.wire.written_messages import WRITTEN_NAMES
from podium_operations.documents import as_yaml

NAMELESS = "a tool without a name"
# A document may hold thousands of tools; a request is short enough to see that it continues.
BATCH_TOOLS_MAX = 250
BATCH_BYTES_MAX = 2 * 1024 * 1024


class WrongSpecs(UsageError):
    """Some specs cannot become tools: all of them, each with its cause."""

    def __init__(self, causes: list[str], wanted: int) -> None:
        super().__init__(
            "\n".join(
                [f"{len(causes)} of {counted(wanted, 'tool')} cannot be registered", *causes]
            ),
            "fix them, nothing was registered; or register the others with --skip-wrong",
        )


class ApplyTools:
    """Checks all specs first, so that a wrong one leaves nothing half done."""

    def __init__(
        self, gateway: Gateway, output: Output, *, shared: bool, dry_run: bool, skip_wrong: bool
    ) -> None:
        self._gateway = gateway
        self._output = output
        self._shared = shared
        self._dry_run = dry_run
        self._skip_wrong = skip_wrong
        self._files: dict[str, Path] = {}

    async def run(
        self,
        specs: Sequence[tool_pb2.ToolSpec],
        wrong: Sequence[str] = (),
        gone: Sequence[str] = (),
        files: Sequence[Path] = (),
        left_out: Sequence[str] = (),
    ) -> list[str]:
        """Prints one line or difference per tool, and returns what is left out with its causes.

        Raises WrongSpecs, which names all of them.

        `wrong` lists problems found while reading, `gone` names tools to deprecate, `files` says
        where each spec was read, `left_out` what was not even to become a tool, and why.
        """
        require_names_of_their_own("tools", [spec.name for spec in specs], files)
        self._files = {spec.name: path for spec, path in zip(specs, files, strict=False)}
        causes, before = list(wrong), await self._registered()
        # Where wrong ones are left out anyway, registering is the check.
        check_first = self._dry_run or not self._skip_wrong
        outcomes = await self._register(specs, validate_only=check_first)
        good = [spec for spec, found in zip(specs, outcomes, strict=True) if not found.problem]
        causes += [
            f"{self._where(spec)}{spec.name or NAMELESS}: {as_written(found.problem)}"
            for spec, found in zip(specs, outcomes, strict=True)
            if found.problem
        ]
        if causes and not (self._skip_wrong and good):
            raise WrongSpecs(causes, len(specs) + len(wrong))
        for spec in good:
            for notice in spec.notices:
                self._output.note(f"{escape(spec.name)}: {escape(notice)}")
        for cause in (*left_out, *causes):
            self._output.note(f"left out: {escape(cause)}")
        replies = [found for found in outcomes if not found.problem]
        if self._dry_run:
            self._show_differences(good, before)
        else:
            if check_first:
                replies = await self._register(good, validate_only=False)
            await self._deprecate(gone)
        values = {
            "tools": [
                {
                    "tool": {"spec": json_values(spec), "version": reply.version},
                    "created": reply.created,
                }
                for spec, reply in zip(good, replies, strict=True)
            ],
            "deprecated": list(gone),
            "left_out": [*left_out, *causes],
            "dry_run": self._dry_run,
        }
        lines = [self._line(reply, before) for reply in replies]
        verb = "would be deprecated" if self._dry_run else "deprecated"
        lines += [f"{name} {verb}: the server no longer has it" for name in gone]
        self._output.result(values, Text("\n".join(lines)))
        return [*left_out, *causes]

    async def _deprecate(self, names: Sequence[str]) -> None:
        for name in names:
            await self._gateway.post(
                f"/v1/tools/{segment(name)}/deprecate",
                {},
                tool_registry_service_pb2.DeprecateToolResponse,
            )

    async def _register(
        self, specs: Sequence[tool_pb2.ToolSpec], validate_only: bool
    ) -> list[tool_registry_service_pb2.RegisteredTool]:
        outcomes: list[tool_registry_service_pb2.RegisteredTool] = []
        for batch in _batches(specs):
            request = tool_registry_service_pb2.RegisterToolsRequest(
                specs=batch, shared=self._shared, validate_only=validate_only
            )
            reply = await self._gateway.post(
                "/v1/tools/batch", request, tool_registry_service_pb2.RegisterToolsResponse
            )
            outcomes += reply.tools
            if len(batch) < len(specs):
                verb = "checked" if validate_only else "registered"
                self._output.note(f"[dim]{verb} {len(outcomes):,} of {len(specs):,}[/]")
        return outcomes

    def _where(self, spec: tool_pb2.ToolSpec) -> str:
        return f"{self._files[spec.name]}: " if spec.name in self._files else ""

    async def _registered(self) -> dict[str, tool_pb2.Tool]:
        reply = await self._gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        return {tool.spec.name: tool for tool in reply.tools}

    def _show_differences(
        self, specs: list[tool_pb2.ToolSpec], before: Mapping[str, tool_pb2.Tool]
    ) -> None:
        for spec in specs:
            known = before.get(spec.name)
            text = difference(known.spec if known else None, spec)
            if text:
                self._output.progress.print(Syntax(text, "diff", background_color="default"))

    def _line(
        self,
        reply: tool_registry_service_pb2.RegisteredTool,
        before: Mapping[str, tool_pb2.Tool],
    ) -> str:
        name, version = reply.name, reply.version
        if reply.created:
            return f"{name} v{version} {'would be registered' if self._dry_run else 'registered'}"
        if name in before and before[name].version == version:
            return f"{name} v{version} unchanged"
        return f"{name} v{version} {'would be' if self._dry_run else 'is'} current again"


def _batches(specs: Sequence[tool_pb2.ToolSpec]) -> Iterator[list[tool_pb2.ToolSpec]]:
    batch: list[tool_pb2.ToolSpec] = []
    size_bytes = 0
    for spec in specs:
        size_bytes += spec.ByteSize()
        if batch and (len(batch) == BATCH_TOOLS_MAX or size_bytes > BATCH_BYTES_MAX):
            yield batch
            batch, size_bytes = [], spec.ByteSize()
        batch.append(spec)
    if batch:
        yield batch


def as_written(problem: str) -> str:
    """A problem with the fields' names as files write them."""
    for field, name in WRITTEN_NAMES.items():
        problem = problem.replace(field, name)
    return problem


def require_names_of_their_own(kinds: str, names: Sequence[str], files: Sequence[Path]) -> None:
    """Raises UsageError for names that several specs have: the last would win unseen."""
    where = dict(enumerate(files))
    places: dict[str, list[str]] = {}
    for number, name in enumerate(names):
        places.setdefault(name, []).append(str(where.get(number, f"number {number + 1}")))
    twice = [
        f"{len(each)} {kinds} are named {name}: {', '.join(each)}"
        for name, each in places.items()
        if len(each) > 1
    ]
    if twice:
        raise UsageError("\n".join(twice), f"give each of the {kinds} a name of its own")


def difference(old: tool_pb2.ToolSpec | None, new: tool_pb2.ToolSpec) -> str:
    """A unified difference of two specs as YAML; "" when they are the same."""
    lines = difflib.unified_diff(
        _yaml(old) if old is not None else [],
        _yaml(new),
        f"{new.name} (registered)",
        f"{new.name} (file)",
        lineterm="",
    )
    return "\n".join(lines)


def _yaml(spec: tool_pb2.ToolSpec) -> list[str]:
    return as_yaml(spec).splitlines()

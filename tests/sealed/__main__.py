"""`python -m sealed`: the default policy on the sealed tasks, once a release.

Runs as `podium demo` does, on a platform of its own in a folder that is deleted at the end: no
question stays in an episode that someone could read or learn from. Where the platform does not
start, `podium demo` says more.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from podium_cli.command import Session, stopping_on_sigterm, user_error
from podium_cli.demo.platform import demo_platform
from podium_cli.demo.solving import Effort, Outcome, Task, solve, tasks_of
from podium_cli.demo.tables import accuracy_table
from podium_cli.output import Output
from podium_cli.target import Target
from podium_kit.client.errors import UserError
from podium_kit.embedded.errors import EmbeddedError
from podium_operations import DISTRIBUTION
from podium_operations.local.engines import EngineChoice
from sealed.archive import sealed_documents
from sealed.results import is_logged, row

README = Path(__file__).with_name("README.md")


def main() -> None:
    output, release = Output(as_json=False), version(DISTRIBUTION)
    if is_logged(release, README.read_text()):
        sys.exit(f"{release} has its row in {README.name}: a release is evaluated once")
    tasks = [task for document in sealed_documents() for task in tasks_of(document)]
    try:
        outcomes = asyncio.run(evaluate(tasks, EngineChoice(), output))
    except (UserError, EmbeddedError) as error:
        output.error(user_error(error))
        sys.exit(1)
    output.progress.print(accuracy_table(outcomes))
    sys.stdout.write(f"{row(release, _commit(), datetime.now(UTC).date(), outcomes)}\n")


async def evaluate(tasks: Sequence[Task], choice: EngineChoice, output: Output) -> list[Outcome]:
    ended = 0

    def count(_: Task, doing: str) -> None:
        nonlocal ended
        if not doing:
            ended += 1
            output.note(f"{ended} of {len(tasks)}")

    with tempfile.TemporaryDirectory(prefix="podium-sealed-") as folder, stopping_on_sigterm():
        # Neither PODIUM_URL nor a platform that is up: no one else's episodes.
        session = Session(output, Target(None, None, Path(folder) / "state"))
        async with demo_platform(session, choice, yes=True, keep=False) as gateway:
            return await solve(gateway, output, tasks, Effort(), count)


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], check=True, capture_output=True, text=True
    )
    return said.stdout.strip()


if __name__ == "__main__":
    main()

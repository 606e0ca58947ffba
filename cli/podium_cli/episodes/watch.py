from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.completion import episode_ids
from podium_cli.episodes.following import follow

Episode = Annotated[
    str, typer.Argument(help="Episode id.", show_default=False, autocompletion=episode_ids)
]


app = typer.Typer(add_completion=False)


@command(app, "watch")
async def watch(
    session: Session,
    episode: Episode,
    after: Annotated[int, typer.Option(min=0, help="Only events after this sequence.")] = 0,
) -> None:
    """Show an episode from its beginning to its end. Ctrl-C stops watching, not the episode."""
    async with session.gateway() as gateway:
        await follow(gateway, episode, session.output, after)

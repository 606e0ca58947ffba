import typer

from podium_cli.command import Session, command
from podium_cli.listing import listing

app = typer.Typer(add_completion=False)


@command(app, "models")
async def models(session: Session) -> None:
    """List the models an episode can ask for, alone or with a policy."""
    async with session.gateway() as gateway:
        found = await gateway.call("GET", "/v1/models")
    rows = [(model["id"], str(model.get("owned_by", ""))) for model in found["data"]]
    session.output.result(found, listing(("model", "owner"), rows))

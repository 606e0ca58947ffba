from enum import StrEnum
from typing import Annotated

import typer
import yaml
from rich.text import Text

from podium_cli.command import Session, command
from podium_operations.controller.exporting import exported

app = typer.Typer(add_completion=False)


class Form(StrEnum):
    KUBERNETES = "kubernetes"


@command(app, "export")
async def export(
    session: Session,
    *,
    form: Annotated[Form, typer.Option("--as", help="What is written.")] = Form.KUBERNETES,
) -> None:
    """Write tools, policies, own prices and budgets as Kubernetes objects."""
    async with session.gateway() as gateway:
        objects = await exported(gateway)
    documents = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)
    session.output.result({"items": objects, "as": form.value}, Text(documents.rstrip("\n")))

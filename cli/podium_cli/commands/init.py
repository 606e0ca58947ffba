import shutil
from pathlib import Path
from typing import Annotated

import typer
import uuid_utils
from rich.markup import escape

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2, tool_pb2
from podium_cli.command import Session, command
from podium_cli.episodes.following import follow, require_answer
from podium_cli.output import Output, writing
from podium_cli.tools.applying import ApplyTools
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_operations.documents import read_only_message

TOOL, POLICY, TASK = "tool.yaml", "policy.yaml", "task.txt"

app = typer.Typer(add_completion=False)


@command(app, "init")
async def init(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="Folder to write into.")] = Path("podium-first"),
) -> None:
    """Write a first tool, policy and task, run them, and say what to do next.

    Files that are there already stay as they are and are used.
    """
    # Before anything is written: without a platform it would be half done.
    async with session.gateway() as gateway:
        _write(folder, session.output)
        tool, policy = await _apply(gateway, folder, session.output)
        task = (folder / TASK).read_text().strip()
        episode_id = str(uuid_utils.uuid7())
        spec = episode_pb2.EpisodeSpec(task=task, policy=policy, tool_names=[tool])
        await gateway.post(
            "/v1/episodes",
            episode_service_pb2.StartEpisodeRequest(episode_id=episode_id, spec=spec),
            episode_service_pb2.StartEpisodeResponse,
        )
        line = escape(f"podium run {task!r} --tool {tool} --policy {policy}")
        session.output.note(f"[dim]{line}[/]")
        episode = await follow(gateway, episode_id, session.output)
    session.output.note("\n[bold]next[/]")
    for line in _next(folder, tool, policy, task, episode_id):
        session.output.note(escape(line))
    require_answer(episode)


def _write(folder: Path, output: Output) -> None:
    starter = bundled_folder() / "starter"
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", "name a folder") from error
    for name in (TOOL, POLICY, TASK):
        path = folder / name
        if path.exists():
            output.note(f"[dim]{escape(str(path))} stays as it is[/]")
            continue
        with writing(path):
            shutil.copyfile(starter / name, path)
        output.note(escape(f"wrote {path}"))


async def _apply(gateway: Gateway, folder: Path, output: Output) -> tuple[str, str]:
    tool = read_only_message(folder / TOOL, tool_pb2.ToolSpec)
    policy = read_only_message(folder / POLICY, policy_pb2.PolicySpec)
    # Its result is this command's no more than that of the others.
    quiet = Output(as_json=False, results=output.progress)
    applying = ApplyTools(gateway, quiet, shared=False, dry_run=False, skip_wrong=False)
    await applying.run([tool], files=[folder / TOOL])
    await gateway.post(
        "/v1/policies",
        policy_service_pb2.CreatePolicyRequest(spec=policy),
        policy_service_pb2.CreatePolicyResponse,
    )
    output.note(f"{policy.name} applied")
    return tool.name, policy.name


def _next(folder: Path, tool: str, policy: str, task: str, episode_id: str) -> list[str]:
    return [
        f'  the tool alone     podium tools try {tool} \'{{"expression": "2^10"}}\'',
        f"  what it cost       podium spend --episode {episode_id} --by tool",
        f"  another tool       edit {folder / TOOL}, then podium tools apply -f {folder / TOOL}",
        f"  what a policy does podium policies explain {policy}",
        f"  the default        podium policies activate {policy}",
        f"  all tools          podium run {task!r} --policy {policy}, without --tool {tool}",
        f"  an API as tools    podium tools import-openapi {folder}/openapi.yaml --dry-run",
    ]

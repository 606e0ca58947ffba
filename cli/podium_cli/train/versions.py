from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.listing import Listing, listing
from podium_cli.train.gated_versions import decided, is_tried, list_versions, tried_versions
from podium_cli.train.learning_journal import roll_back
from podium_cli.train.train import app
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.policy_versions import Alias, VersionStore
from podium_kit.policy_versions.store import removable
from podium_kit.wire import enum_word, json_values
from podium_training.gate import (
    Decision,
    GateRules,
    InvalidEvaluation,
    Objective,
    Verdict,
    read_evaluation,
)

COLUMNS = ("version", "step#", "aliases", "served", "gate", "why not…")


def version_table(versions: Sequence[pb.ModelVersion]) -> Listing:
    return listing(COLUMNS, [_row(version) for version in versions])


def decision_table(decision: Decision) -> Listing:
    rows = [("verdict", decision.verdict.value), ("pairs", str(decision.pairs))]
    rows += [("why", reason) for reason in decision.reasons]
    for name, bound in decision.bounds.items():
        words = f"{bound['mean']:+.4g} ({bound['lower']:+.4g} to {bound['upper']:+.4g})"
        rows.append((f"gain in {name}", words))
    ours, theirs = decision.figures["candidate"], decision.figures["promoted"]
    rows += [(name, f"{ours[name]} (promoted {theirs[name]})") for name in ours]
    return listing(("", ""), rows)


def _row(version: pb.ModelVersion) -> tuple[str, ...]:
    verdict = enum_word(pb.GateVerdict.Name(version.gate_verdict), "GATE_VERDICT_")
    return (
        version.name,
        str(version.step) if version.HasField("step") else "",
        ", ".join(version.aliases),
        _served(version),
        verdict if version.gate_verdict else "-",
        "; ".join([*version.faults, *version.gate_reasons]),
    )


def _served(version: pb.ModelVersion) -> str:
    if not is_tried(version):
        return "not seen yet"
    return f"{version.replica_ready_count} of {version.replica_count}"


Store = Annotated[
    Path,
    typer.Option(envvar="PODIUM_POLICY_STORE", help="Folder of the policy versions.", exists=True),
]
Version = Annotated[str, typer.Argument(help="Like policy-demo-v12.")]


@command(app, "publish")
async def publish(
    session: Session, config: Annotated[Path, typer.Argument(help="YAML file of the run.")]
) -> None:
    """Publish the newest checkpoint of a run as a version; again changes nothing."""
    # torch is not part of every installation, and slow to import.
    try:
        from podium_training.grpo.config import read_config  # noqa: PLC0415
        from podium_training.grpo.ending import Fault  # noqa: PLC0415
        from podium_training.grpo.run import publish_latest  # noqa: PLC0415
    except ModuleNotFoundError as error:
        fix = "run this where training runs, such as the training image"
        raise UserError(f"{error.name} is not installed here", fix) from error
    try:
        manifest = publish_latest(read_config(config))
    except Fault as error:
        raise UsageError(str(error)) from error
    values = {"version": manifest.name, "format": manifest.format, "step": manifest.step}
    session.output.result(values, manifest.name)


@command(app, "versions")
async def versions(
    session: Session,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until the engines have tried them, two minutes at most.")
    ] = False,
) -> None:
    """List the versions: their servers, the gate's decisions, the aliases.

    Platform admins only, as for promote and rollback.
    """
    async with session.gateway(admin=True) as gateway:
        found = await (tried_versions(gateway) if wait else list_versions(gateway))
    session.output.result(json_values(found), version_table(found.versions))


@command(app, "gate")
async def gate(
    session: Session,
    version: Version,
    *,
    store: Store,
    candidate: Annotated[Path, typer.Option(help="JSONL of `rollout --evaluation`.")],
    promoted: Annotated[Path, typer.Option(help="The same of the promoted policy.")],
    objective: Annotated[
        Objective, typer.Option(help="What it must be better at.")
    ] = Objective.SCORE,
    delta: Annotated[float, typer.Option(min=0, help="Score it may at most lose.")] = 0.02,
    look: Annotated[int, typer.Option(min=1, help="Number of this look.")] = 1,
    looks: Annotated[int, typer.Option(min=1, help="Looks in all.")] = 1,
    pairs_min: Annotated[int, typer.Option(min=1, help="Tasks with pairs before a decision.")] = 30,
    cost_max: Annotated[str, typer.Option(help="Largest mean cost of a task.")] = "",
    latency_max: Annotated[
        float | None, typer.Option(help="Largest latency p95 in seconds.")
    ] = None,
) -> None:
    """Decide whether a version may replace the promoted one; the decision is recorded.

    Exit status 1 unless it may.
    """
    try:
        rules = GateRules(
            objective=objective,
            delta=delta,
            looks=looks,
            pairs_min=pairs_min,
            cost_max=_amount(cost_max),
            latency_p95_max_s=latency_max,
        )
    except ValidationError as error:
        fault = error.errors()[0]
        field = str(fault["loc"][0]).replace("latency_p95_max_s", "latency_max")
        cause = f"--{field.replace('_', '-')} is {fault['input']}"
        raise UsageError(cause, fault["msg"]) from error
    try:
        played = read_evaluation(candidate), read_evaluation(promoted)
    except InvalidEvaluation as error:
        raise UsageError(str(error)) from error
    decision = decided(version, store, played, rules, look)
    session.output.result(decision.model_dump(mode="json"), decision_table(decision))
    if decision.verdict is not Verdict.PROMOTE:
        raise typer.Exit(1)


@command(app, "promote")
async def promote(session: Session, version: Version) -> None:
    """Give a version to users: one that is served and that the gate let through."""
    async with session.gateway(admin=True) as gateway:
        reply = await gateway.post(
            f"/v1/model-versions/{segment(version)}/promote", {}, pb.PromoteModelVersionResponse
        )
    session.output.result(json_values(reply), f"{reply.version.name} is promoted")


@command(app, "rollback")
async def rollback(
    session: Session,
    version: Annotated[
        str, typer.Argument(help="The version to take back; the promoted one by default.")
    ] = "",
    *,
    policy: Annotated[
        str, typer.Option(help="Take back what `podium train production` promoted for it.")
    ] = "",
) -> None:
    """Give users the version before, from the next call on; with --policy those of the policy."""
    if policy and version:
        raise UsageError("a policy has one promoted version", "name the policy alone")
    if policy:
        async with session.gateway() as gateway:
            step = await roll_back(gateway, policy)
        session.output.result(json_values(step), step.summary)
        return
    async with session.gateway(admin=True) as gateway:
        name = version or await _promoted(gateway)
        reply = await gateway.post(
            f"/v1/model-versions/{segment(name)}/roll-back", {}, pb.RollBackModelVersionResponse
        )
    session.output.result(json_values(reply), f"{reply.version.name} is promoted again")


@command(app, "prune")
async def prune(session: Session, *, store: Store) -> None:
    """Delete the files of versions that no alias means and no engine has loaded any more."""
    found = VersionStore(store)
    names = removable(found)
    for name in names:
        found.remove(name)
    session.output.result({"removed": names}, "\n".join(names) or "nothing to delete")


async def _promoted(gateway: Gateway) -> str:
    for version in (await list_versions(gateway)).versions:
        if Alias.PROMOTED in version.aliases:
            return version.name
    raise UsageError("no version is promoted", "see `podium train versions`")


def _amount(text: str) -> Decimal | None:
    if not text:
        return None
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise UsageError(f"{text!r} is no amount", "write it like 0.05") from error

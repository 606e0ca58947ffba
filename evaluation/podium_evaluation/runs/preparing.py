"""Checks a run before anything is spent, and builds the request that stores it."""

from collections.abc import Sequence
from decimal import Decimal

from podium.common.v1 import money_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2, price_book_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_service_pb2, tool_pb2, tool_registry_service_pb2
from podium_evaluation.runs.names import budget_name
from podium_evaluation.suites.run_file import Arm, RunFile
from podium_evaluation.suites.suite import Suite, comparability_key
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import duration_to_proto
from podium_training.rollouts.rolling import skus_of
from podium_training.tasks.task import FIND_TOOLS

CURRENCY = "USD"
PROMPT_MODES = {
    "": orchestrator_pb.PROMPT_MODE_UNSPECIFIED,
    "stateless": orchestrator_pb.PROMPT_MODE_STATELESS,
    "chat": orchestrator_pb.PROMPT_MODE_CHAT,
    "template": orchestrator_pb.PROMPT_MODE_TEMPLATE,
}


def trial_count(run: RunFile, suite: Suite) -> int:
    return len(suite.tasks) * len(run.arms) * run.repeats


def check_forecast(run: RunFile, suite: Suite) -> None:
    """Raises UsageError where the trials' own budgets together may pass the run's."""
    if run.trial_usd is None:
        return
    worst = run.trial_usd * trial_count(run, suite)
    if worst > run.budget_usd:
        raise UsageError(
            f"{trial_count(run, suite)} trials of up to {run.trial_usd:f} {CURRENCY} may cost"
            f" {worst:f}, and budget_usd is {run.budget_usd:f}",
            f"set budget_usd to {worst:f}, or take fewer items, arms or repeats",
        )


async def prepare(
    gateway: Gateway, evaluation_id: str, run: RunFile, suite: Suite
) -> pb.CreateEvaluationRequest:
    """The run as it is to be stored. Raises UsageError, Rejected, Unreachable."""
    check_forecast(run, suite)
    listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    tools = {tool.spec.name: tool for tool in listed.tools}
    await _check_models(gateway, suite, {name: tool.spec for name, tool in tools.items()})
    for arm in run.arms:
        await _check_arm(gateway, arm, {name: tool.spec for name, tool in tools.items()})
    versions = {name: str(tool.version) for name, tool in tools.items()}
    evaluation = pb.Evaluation(
        id=evaluation_id,
        suite=suite.name,
        comparability_key=comparability_key(suite, run, versions),
        arms=[_arm(arm, run) for arm in run.arms],
        repeats=run.repeats,
        budget_id=budget_name(evaluation_id),
    )
    return pb.CreateEvaluationRequest(evaluation=evaluation, items=suite.items())


async def create(gateway: Gateway, request: pb.CreateEvaluationRequest, limit: Decimal) -> None:
    """Creates the run's budget, then the run: there is no run without its budget."""
    budget = budget_service_pb2.Budget(
        id=request.evaluation.budget_id,
        scope=budget_service_pb2.BUDGET_SCOPE_AGENT,
        scope_id=request.evaluation.budget_id,
        window=budget_service_pb2.BUDGET_WINDOW_TOTAL,
        hard_limit=money_pb2.Money(amount=f"{limit:f}", currency_code=CURRENCY),
    )
    wanted = budget_service_pb2.CreateBudgetRequest(budget=budget)
    await gateway.post("/v1/budgets", wanted, budget_service_pb2.CreateBudgetResponse)
    await gateway.post("/v1/evaluations", request, pb.CreateEvaluationResponse)


async def _check_models(
    gateway: Gateway, suite: Suite, tools: dict[str, tool_pb2.ToolSpec]
) -> None:
    for use, names in (("judge", suite.judges), ("user", suite.users)):
        for name in names:
            if name not in tools:
                raise UsageError(f"there is no tool {name} as {use}", "see `podium tools list`")
            if not kind_of(tools[name].kind).has_models:
                raise UsageError(f"the {use} {name} is no tool of kind llm", "name one that is")
        if unpriced := await _unpriced(gateway, [tools[name] for name in names]):
            raise UsageError(
                f"the {use} {', '.join(unpriced)} has no price, so its cost would be unknown",
                "import one with `podium prices import`",
            )


async def _check_arm(gateway: Gateway, arm: Arm, tools: dict[str, tool_pb2.ToolSpec]) -> None:
    if arm.policy:
        path = f"/v1/policies/{segment(arm.policy)}"
        await gateway.get(path, policy_service_pb2.GetPolicyResponse)
    named = [name for name in arm.tools if name != FIND_TOOLS]
    if unknown := [name for name in named if name not in tools]:
        raise UsageError(
            f"arm {arm.name}: there is no tool {unknown[0]}", "see `podium tools list`"
        )
    if unpriced := await _unpriced(gateway, [tools[name] for name in named]):
        raise UsageError(
            f"arm {arm.name}: {', '.join(unpriced)} has no price, so its cost would be unknown",
            "import one with `podium prices import`",
        )


async def _unpriced(gateway: Gateway, tools: Sequence[tool_pb2.ToolSpec]) -> list[str]:
    """Tools of which a call has no price; one of an orchestrator costs what its episode does."""
    skus = {tool.name: skus_of(tool) for tool in tools if not kind_of(tool.kind).starts_episode}
    wanted = sorted({sku for each in skus.values() for sku in each})
    reply = price_book_service_pb2.GetEffectivePricesResponse
    found = await gateway.get("/v1/prices/effective", reply, skus=wanted) if wanted else reply()
    return sorted(
        name for name, each in skus.items() if not each or not set(each) <= set(found.prices)
    )


def _arm(arm: Arm, run: RunFile) -> pb.EvaluationArm:
    stored = pb.EvaluationArm(
        name=arm.name,
        model=arm.model,
        policy=arm.policy,
        tool_names=arm.tools,
        turn_limit=arm.turn_limit or run.turn_limit,
        time_limit=duration_to_proto(run.time_limit),
        prompt_mode=PROMPT_MODES[arm.prompt_mode],
        sampling=orchestrator_pb.Sampling(
            temperature=arm.temperature, top_p=1.0, max_tokens=arm.max_tokens
        ),
    )
    if run.trial_usd is not None:
        money = money_pb2.Money(amount=f"{run.trial_usd:f}", currency_code=CURRENCY)
        stored.budget.CopyFrom(money)
    return stored
